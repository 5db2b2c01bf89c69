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
local UNSET_32 = 4294967294 -- one more is UNLIMITED
local UNSET_64 = 1.8e19 -- below its float; memory per CPU is half of it and more

local function text(value)
    if type(value) == "string" and value ~= "" then return value end
end

local function number(value, limit)
    if type(value) == "number" and value >= 1 and value < limit and value == math.floor(value) then
        return value
    end
end

local function minutes(value)
    if type(value) == "number" and value >= 1 and value ~= UNSET_32 then
        return value > UNSET_32 and math.huge or value
    end
end

local function first_number(value)
    return number(tonumber(value) or 0, MOST)
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
local function view_of(job_desc, part_list)
    local job = {open = type(part_list) == "table" and part_list or nil}
    for _, name in ipairs({"partition", "features", "comment", "req_nodes", "exc_nodes",
        "reservation", "qos", "account", "script", "tres_per_node", "tres_per_job",
        "tres_per_task", "tres_per_socket", "cpus_per_tres", "mem_per_tres"}) do
        job[name] = text(job_desc[name])
    end
    for _, name in ipairs({"min_nodes", "max_nodes", "num_tasks"}) do
        job[name] = number(job_desc[name], MOST)
    end
    for _, name in ipairs({"ntasks_per_node", "cpus_per_task", "sockets_per_node",
        "ntasks_per_core", "ntasks_per_socket", "ntasks_per_tres"}) do
        job[name] = number(job_desc[name], UNSET)
    end
    -- Slurm runs a job for its least time where the partition gives no more.
    job.minutes = minutes(job_desc.time_min) or minutes(job_desc.time_limit)
    local memory = job_desc.pn_min_memory
    job.says_memory = job.mem_per_tres ~= nil or (type(memory) == "number" and memory < UNSET_64)
    -- Releases whose Lua cannot set a segment have no such field.
    job.can_segment = type(job_desc.segment_size) == "number"
    job.segment = number(job_desc.segment_size, UNSET)
    local offset = job_desc.het_job_offset
    job.in_het_job = type(offset) == "number" and offset >= 0 and offset < MOST
    local environment = job.script and job_desc.environment
    if type(environment) == "table" then
        job.has_environment, job.sn_cards = true, text(environment["SN_CARDS"])
        job.counts_tasks = text(environment["SLURM_NTASKS"]) ~= nil
    end
    if job.account == nil then job.account = text(job_desc.default_account) end
    local known = job.reservation and type(slurm.reservations) == "table"
        and slurm.reservations[job.reservation]
    if known then job.reserved = text(known.node_list) end
    return job
end

-- What rules say of a job ----------------------------------------------------------------------

local function want(job, name, value)
    job[name] = value
    job.wanted[#job.wanted + 1] = {name, value}
end

-- sbatch sets these for the script by the options that the user gave it.
local function want_variable(job, name, value)
    if job.has_environment then
        job.wanted[#job.wanted + 1] = {name, ("%d"):format(value), "environment"}
    end
end

local function say(job, format, ...)
    job.said[#job.said + 1] = format:format(...)
end

-- Of values that a user wrote: short, and on one line.
local function shown(value)
    return (value:sub(1, 60):gsub("%c", "?"))
end

local function refuse(job, format, ...)
    say(job, format, ...)
    job.refused = true
end
"""
