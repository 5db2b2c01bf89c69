"""What the rules of job_submit.lua see of a job and of the room: Lua text, alike for every site.

It works on the table ``site`` that plugin.py writes before it, in Lua 5.1 (Debian's Slurm)
and 5.4. Numbers of Slurm are floats in Lua 5.4: they are printed with %d only, and absurd
ones count as unset.
"""

from __future__ import annotations

VIEW = r"""
-- What a job asks for -----------------------------------------------------------------------

local MOST = 1000000 -- more than this of anything is no request, but a value for "unset"
local UNSET = 65534 -- from here on in the fields of 16 bits

local function text(value)
    if type(value) == "string" and value ~= "" then return value end
end

local function number(value, limit)
    if type(value) == "number" and value >= 1 and value < limit and value == math.floor(value) then
        return value
    end
end

local function first_number(value)
    return number(tonumber(value) or 0, MOST)
end

-- The nodes that a list like a[1-4],b1 names, at most: a node may stand in it twice.
local function count_hosts(list)
    local hosts = 0
    for name in list:gsub("%b[]", function(inner)
        return "<" .. inner:sub(2, -2):gsub(",", ";") .. ">"
    end):gmatch("[^,%s]+") do
        local product = 1
        for inner in name:gmatch("<([^>]*)>") do
            local sum = 0
            for part in inner:gmatch("[^;]+") do
                local low, high = part:match("^(%d+)%-(%d+)$")
                sum = sum + (low and math.max(tonumber(high) - tonumber(low) + 1, 1) or 1)
            end
            product = product * sum
        end
        hosts = hosts + product
    end
    return hosts
end

-- The cards in one field: gres:gpu:h100:8, gres/gpu:h100=8, gpu:8 ...; a count by its key,
-- "gpu:h100" or "gpu" where the kind is open.
local function cards_in(field, found)
    for part in (text(field) or ""):gmatch("[^,]+") do
        local words = part:gsub("^%s*gres[:/]", "")
        local name, rest = words:match("^([%w_.%-]+)[:=]?(.*)$")
        if name and site.gres[name] then
            local kind, count = rest:match("^([%w_.%-]+)[:=](%d+)$")
            if rest:match("^%d*$") then
                count = rest
            elseif not kind then
                kind, count = rest:match("^[%w_.%-]+$"), ""
                if not kind then return false end
            end
            if count ~= "" and not first_number(count) then return false end
            local key = kind and name .. ":" .. kind or name
            found[key] = (found[key] or 0) + (first_number(count) or 1)
        end
    end
    return true
end

-- Return the size of a job with cards: key, nodes, per_node, total, some of them unknown.
-- Nil for one without cards, with several kinds, or whose cards this file does not know.
local function size_of(job)
    local size, key, several = {}, nil, false
    for _, field in ipairs({"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"}) do
        local found = {}
        if not cards_in(job[field], found) then return nil end
        for name, count in pairs(found) do
            several = several or (key ~= nil and key ~= name)
            key, size[field] = name, count
        end
    end
    if several or not key then return nil end
    size.key, size.nodes = key, job.min_nodes
    if not size.nodes and job.num_tasks and job.ntasks_per_node then
        size.nodes = math.ceil(job.num_tasks / job.ntasks_per_node)
    end
    size.per_node = size.tres_per_node
    if not size.per_node and size.tres_per_socket then
        size.per_node = size.tres_per_socket * (job.sockets_per_node or 1)
    end
    size.total = size.tres_per_job
    if not size.total and size.per_node then
        size.total = size.per_node * (size.nodes or 1)
    elseif not size.total then
        local each_node = (size.nodes or 1) * (job.ntasks_per_node or 1)
        size.total = size.tres_per_task * (job.num_tasks or each_node)
    end
    if size.per_node and not size.nodes then size.nodes = math.ceil(size.total / size.per_node) end
    if size.nodes and not size.per_node then size.per_node = math.ceil(size.total / size.nodes) end
    return size
end

-- A view of the job that rules may read; unset is nil.
local function view_of(job_desc)
    local job = {}
    for _, name in ipairs({"partition", "features", "comment", "req_nodes", "exc_nodes",
        "reservation", "script", "tres_per_node", "tres_per_job", "tres_per_task",
        "tres_per_socket"}) do
        job[name] = text(job_desc[name])
    end
    for _, name in ipairs({"min_nodes", "max_nodes", "num_tasks"}) do
        job[name] = number(job_desc[name], MOST)
    end
    for _, name in ipairs({"ntasks_per_node", "cpus_per_task", "sockets_per_node"}) do
        job[name] = number(job_desc[name], UNSET)
    end
    -- Releases whose Lua cannot set a segment have no such field.
    job.can_segment = type(job_desc.segment_size) == "number"
    job.segment = number(job_desc.segment_size, UNSET)
    local offset = job_desc.het_job_offset
    job.in_het_job = type(offset) == "number" and offset >= 0 and offset < MOST
    local environment = job.script and job_desc.environment
    if type(environment) == "table" then
        job.has_environment, job.sn_cards = true, text(environment["SN_CARDS"])
    end
    return job
end

-- Where there is room ------------------------------------------------------------------------

-- The partitions that a job names, or the default one; nil where one of them is not ours.
local function partitions_of(job)
    local names, found = job.partition or site.default, {}
    for name in (names or ""):gmatch("[^,]+") do
        if not site.partitions[name] then return nil end
        found[#found + 1] = name
    end
    if found[1] then return found end
end

-- The supernodes and pools of partitions that have nodes with so many cards, in order.
local function domains_of(partitions, key, per_node)
    local found, by_name = {}, {}
    for _, partition in ipairs(partitions) do
        local here = {}
        for _, row in ipairs(site.partitions[partition]) do
            if (row.cards[key] or 0) >= per_node then
                local domain = here[row.domain]
                if not domain then
                    domain = {name = row.domain, supernode = row.supernode, nodes = 0}
                    here[row.domain] = domain
                end
                domain.nodes = domain.nodes + row.nodes
                domain.planning = math.min(row.planning, domain.nodes)
                local known = by_name[row.domain]
                if not known then
                    found[#found + 1] = domain
                    by_name[row.domain] = domain
                elseif known ~= domain and known.nodes < domain.nodes then
                    known.nodes, known.planning = domain.nodes, domain.planning
                end
            end
        end
    end
    return found
end

local function most_cards(partitions, key)
    local most = 0
    for _, partition in ipairs(partitions) do
        for _, row in ipairs(site.partitions[partition]) do
            most = math.max(most, row.cards[key] or 0)
        end
    end
    return most
end

-- The nodes and the cards per node that a job takes in partitions; the nodes there; nil
-- where no node has the cards.
local function shape_in(partitions, size)
    local most = most_cards(partitions, size.key)
    if most == 0 then return nil end
    local per_node = size.per_node or math.min(size.total, most)
    local nodes, there = size.nodes or math.ceil(size.total / per_node), 0
    local domains = domains_of(partitions, size.key, per_node)
    for _, domain in ipairs(domains) do there = there + domain.nodes end
    return {nodes = nodes, per_node = per_node, there = there, domains = domains, most = most}
end

-- The partition that has most of the nodes a job could take.
local function roomiest(size)
    local best, most = nil, 0
    for _, partition in ipairs(site.order) do
        local shape = shape_in({partition}, size)
        if shape and shape.there >= shape.nodes and shape.there > most then
            best, most = partition, shape.there
        end
    end
    return best
end

-- Of a key: h100 cards, or cards of the GRES gpu.
local function called(key)
    return key:match(":(.*)$") or key
end
"""
