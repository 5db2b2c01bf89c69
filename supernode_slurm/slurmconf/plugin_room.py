"""Where job_submit.lua finds room for a job, within what its user said: Lua text, alike everywhere.

A row of ``site.partitions`` is the nodes of one kind of one supernode or pool in a partition.
"""

from __future__ import annotations

ROOM = r"""
-- Where there is room ------------------------------------------------------------------------

local MOST_HOSTS = 16384

-- The hosts that a list like a[1-4],b1 names; nil where they are no list or too many.
local function expand(list)
    local found, seen, steps = {}, {}, MOST_HOSTS
    local function add(name)
        local head, inner, tail = name:match("^(.-)%[([^%]]*)%](.*)$")
        if not head then
            if not seen[name] then found[#found + 1] = name end
            seen[name] = true
            steps = steps - 1
            return steps > 0
        end
        if inner == "" then return false end
        for part in inner:gmatch("[^;]+") do
            local low, high = part:match("^(%d+)%-(%d+)$")
            low, high = low or part:match("^%d+$"), high or part
            if not low or #low > 9 or #high > 9 or tonumber(high) < tonumber(low) then
                return false
            end
            for index = tonumber(low), tonumber(high) do
                if not add(head .. ("%0" .. #low .. "d"):format(index) .. tail) then
                    return false
                end
            end
        end
        return true
    end
    if #list > 4 * MOST_HOSTS then return nil end
    local flat = list:gsub("%b[]", function(inner) return (inner:gsub(",", ";")) end)
    for name in flat:gmatch("[^,%s]+") do
        if not add(name) then return nil end
    end
    return found
end

-- A folded list of a row, like h1-[01-08,11],login: ranges by what stands before them.
local function ranges_of(list)
    local ranges = {}
    for item in list:gsub("%b[]", function(inner) return (inner:gsub(",", ";")) end)
        :gmatch("[^,]+") do
        local head, inner = item:match("^(.-)%[(.-)%]$")
        if not head then head, inner = item:match("^(.-)(%d*)$") end
        ranges[head] = ranges[head] or {}
        for part in (inner == "" and "x" or inner):gmatch("[^;]+") do
            local low, high = part:match("^(%d+)%-?(%d*)$")
            high = high ~= "" and high or low
            ranges[head][#ranges[head] + 1] = low
                and {width = #low, low = tonumber(low), high = tonumber(high)} or {}
        end
    end
    return ranges
end

local function lists(ranges, host)
    local head, digits = host:match("^(.-)(%d*)$")
    for _, range in ipairs(ranges[head] or {}) do
        if digits == "" or not range.low then
            if digits == "" and not range.low then return true end
        elseif #digits == range.width or (#digits > range.width and digits:sub(1, 1) ~= "0") then
            local index = tonumber(digits)
            if index >= range.low and index <= range.high then return true end
        end
    end
    return false
end

local function count_in(row, hosts)
    local count, ranges = 0, ranges_of(row.hosts)
    for _, host in ipairs(hosts) do
        if lists(ranges, host) then count = count + 1 end
    end
    return count
end

-- The words of a constraint that the inventory can answer: a&b, a|b, [a|b].
local function readable(features)
    local any = features:match("^%[?([%w_.%-]+[%w_.%-|]*)%]?$")
    if not any and not features:match("^[%w_.%-&]+$") then return nil end
    local words = {any = any ~= nil and any:find("|", 1, true) ~= nil}
    for word in features:gmatch("[%w_.%-]+") do
        if not site.features[word] then return nil end
        words[#words + 1] = word
    end
    return words
end

-- What bounds the nodes of a job: its constraint, its lists of nodes, its reservation.
local function bound(job)
    job.counts = {}
    job.words = job.features and readable(job.features)
    job.named = job.req_nodes and expand(job.req_nodes)
    job.excluded = job.exc_nodes and (expand(job.exc_nodes) or "unknown")
    job.only = job.reservation and job.reserved and expand(job.reserved)
    return job
end

-- The job without one of its bounds, or without all on its nodes.
local function without(job, ...)
    local less = {}
    for _, name in ipairs({...}) do less[name] = false end
    return bound(setmetatable(less, {__index = job}))
end

local function unbound(job)
    return without(job, "features", "req_nodes", "exc_nodes", "reservation")
end

local function fits(row, words)
    for _, word in ipairs(words) do
        if row.has[word] and words.any then return true end
        if not row.has[word] and not words.any then return false end
    end
    return not words.any
end

-- How many nodes of a row a job may have, of those that it leaves.
local function nodes_of(job, row)
    local count = job.counts[row]
    if not count then
        count = row.nodes
        if job.only then count = count_in(row, job.only) end
        if job.words and not fits(row, job.words) then count = 0 end
        if job.named and count_in(row, job.named) == 0 then count = 0 end
        if job.excluded == "unknown" then
            count = 0
        elseif job.excluded then
            count = math.max(count - count_in(row, job.excluded), 0)
        end
        job.counts[row] = count
    end
    return count
end

-- The partitions that a job names, or the default one; nil where one of them is not ours.
local function partitions_of(job)
    local names, found = job.partition or site.default, {}
    for name in (names or ""):gmatch("[^,]+") do
        if not site.partitions[name] then return nil end
        found[#found + 1] = name
    end
    if found[1] then return found end
end

-- Minutes that a partition gives a job: as Slurm says, else as the inventory does.
local function most_minutes(job, partition)
    local live = job.open and job.open[partition]
    return live and minutes(live.max_time) or site.partitions[partition].max_minutes or math.huge
end

local function gives_time(job, partition)
    return not job.minutes or job.minutes <= most_minutes(job, partition)
end

local function stands_in(list, name)
    return ("," .. list .. ","):find("," .. name .. ",", 1, true) ~= nil
end

-- Why Slurm would not take this user's job in a partition; nil where it may.
local function closed(job, partition)
    if not job.open then return nil end
    local live = job.open[partition]
    if not live then return "is not open to you" end
    if type(live.state_up) == "number" and live.state_up ~= 3 then return "is not up" end
    for _, item in ipairs({{"accounts", job.account}, {"qos", job.qos}}) do
        local allowed, denied = text(live["allow_" .. item[1]]), text(live["deny_" .. item[1]])
        if item[2] and ((allowed and not stands_in(allowed, item[2]))
            or (not allowed and denied and stands_in(denied, item[2]))) then
            return "is not open to " .. item[2]
        end
    end
end

-- The partitions that a job may be sent to: those that it names, else all that are open to it.
local function choices(job, names)
    local found = {}
    for _, name in ipairs(names or site.order) do
        if gives_time(job, name) and (job.partition or not closed(job, name)) then
            found[#found + 1] = name
        end
    end
    return found
end

-- The supernodes and pools of partitions that have nodes with so many cards, in order, and
-- what each of these nodes has for a card at least.
local function domains_of(job, partitions, key, per_node)
    local found, by_name, least = {}, {}, {cpus = math.huge, memory = math.huge, whole = true}
    for _, partition in ipairs(partitions) do
        local here = {}
        for _, row in ipairs(site.partitions[partition]) do
            local nodes = nodes_of(job, row)
            if nodes > 0 and (row.cards[key] or 0) >= per_node then
                local domain = here[row.domain]
                if not domain then
                    domain = {name = row.domain, supernode = row.supernode, nodes = 0}
                    here[row.domain] = domain
                end
                domain.nodes = domain.nodes + nodes
                domain.planning = math.min(row.planning, domain.nodes)
                local known = by_name[row.domain]
                if not known then
                    found[#found + 1] = domain
                    by_name[row.domain] = domain
                elseif known ~= domain and known.nodes < domain.nodes then
                    known.nodes, known.planning = domain.nodes, domain.planning
                end
                least.cpus = math.min(least.cpus, row.cpus)
                least.memory = math.min(least.memory, math.floor(row.memory * per_node
                    / row.devices))
                least.whole = least.whole and row.devices == per_node
            end
        end
    end
    return found, least
end

local function most_cards(job, partitions, key)
    local most = 0
    for _, partition in ipairs(partitions) do
        for _, row in ipairs(site.partitions[partition]) do
            if nodes_of(job, row) > 0 then most = math.max(most, row.cards[key] or 0) end
        end
    end
    return most
end

-- The nodes and the cards per node that a job takes in partitions; the nodes there; nil
-- where no node has the cards.
local function shape_in(job, partitions, size)
    local most = most_cards(job, partitions, size.key)
    if most == 0 then return nil end
    local per_node = size.per_node or math.min(size.total, most)
    local nodes, there = size.nodes or math.ceil(size.total / per_node), 0
    local domains, least = domains_of(job, partitions, size.key, per_node)
    for _, domain in ipairs(domains) do there = there + domain.nodes end
    return {nodes = nodes, per_node = per_node, there = there, domains = domains, most = most,
        least = least}
end

local function holds(job, partitions, size)
    local shape = shape_in(job, partitions, size)
    return shape ~= nil and shape.there >= shape.nodes
end

-- The partition that has most of the nodes a job could take.
local function roomiest(job, size)
    local best, most = nil, 0
    for _, partition in ipairs(choices(without(job, "partition"))) do
        local shape = shape_in(job, {partition}, size)
        if shape and shape.there >= shape.nodes and shape.there > most then
            best, most = partition, shape.there
        end
    end
    return best
end

-- The options of the largest job of such cards that a partition open to this user can hold.
local function nearest(job, size)
    local said, most = nil, 0
    for _, partition in ipairs(choices(without(job, "partition"))) do
        local per_node = math.min(size.per_node or size.total,
            most_cards(job, {partition}, size.key))
        if per_node > 0 then
            local nodes = math.ceil(size.total / per_node)
            local shape = shape_in(job, {partition}, {key = size.key, per_node = per_node,
                nodes = nodes, total = size.total})
            nodes = math.min(nodes, shape.there)
            if nodes * per_node > most then
                most = nodes * per_node
                said = ("--partition=%s --nodes=%d --gres=%s:%d"):format(partition, nodes,
                    size.key, per_node)
            end
        end
    end
    return said
end

-- Of a key: h100 cards, or cards of the GRES gpu.
local function called(key)
    return key:match(":(.*)$") or key
end

-- As --time takes it.
local function duration(count)
    if count == math.huge then return "UNLIMITED" end
    return ("%d-%02d:%02d:00"):format(math.floor(count / 1440), math.floor(count % 1440 / 60),
        count % 60)
end
"""
