-- Written by 'sn generate' for cluster campus and Slurm 22.05.
-- Do not edit: change the inventory and generate again.
local site = {
    default = "gpu",
    whole_supernode_from = 64,
    small_jobs_to = "gpu",
    segment = false,
    prefix = "gres:",
    order = {"gb200", "gpu", "nvidia", "npu", "npu-small"},
    domains = {nvl1 = true, nvl2 = true, cm = true, hgx = true, a2 = true},
    gres = {gpu = true, npu = true},
    known = {gpu = true, ["gpu:gb200"] = true, npu = true, ["npu:ascend910c"] = true, ["gpu:h100"] = true, ["npu:ascend910b3"] = true},
    features = {a2 = true, ascend910b3 = true, ascend910c = true, cm = true, gb200 = true, h100 = true, hgx = true, nvl1 = true, nvl2 = true},
    kinds = {{type = "gb200", gres = "gpu", devices_per_card = 1}, {type = "ascend910c", gres = "npu", devices_per_card = 2}, {type = "h100", gres = "gpu", devices_per_card = 1}, {type = "ascend910b3", gres = "npu", devices_per_card = 1}},
    kind_names = "gb200, ascend910c, h100, ascend910b3",
    called = {gb200 = 1, ascend910c = 2, h100 = 3, ascend910b3 = 4, h100sxm = 3, h100sxm5 = 3, nvidiah10080gbhbm3 = 3, h100sxm580gb = 3, nvidiagb200 = 1, gb200nvl72 = 1, ["910b3"] = 4, ["910b"] = 4, atlas800a2313t64g = 4, ascend910b = 4, ["910c"] = 2, ascend91093 = 2, atlas800ta3 = 2, a3 = 2, atlas800a3752t128g = 2},
}
site.partitions = {
    ["gb200"] = {
        placed_by = "tree",
        max_minutes = 10080,
        {domain = "nvl1", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl1-[01-18]", has = {nvl1 = true, gb200 = true}},
        {domain = "nvl2", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl2-[01-18]", has = {nvl2 = true, gb200 = true}},
    },
    ["gpu"] = {
        placed_by = "tree",
        max_minutes = 10080,
        {domain = "hgx", supernode = false, nodes = 12, planning = 12, cards = {gpu = 8, ["gpu:h100"] = 8}, devices = 8, cpus = 14, memory = 2048000, hosts = "hgx[01-12]", has = {hgx = true, h100 = true}},
    },
    ["nvidia"] = {
        placed_by = "tree",
        max_minutes = 1440,
        {domain = "nvl1", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl1-[01-18]", has = {nvl1 = true, gb200 = true}},
        {domain = "nvl2", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl2-[01-18]", has = {nvl2 = true, gb200 = true}},
        {domain = "hgx", supernode = false, nodes = 12, planning = 12, cards = {gpu = 8, ["gpu:h100"] = 8}, devices = 8, cpus = 14, memory = 2048000, hosts = "hgx[01-12]", has = {hgx = true, h100 = true}},
    },
    ["npu"] = {
        placed_by = "tree",
        max_minutes = 10080,
        {domain = "cm", supernode = true, nodes = 48, planning = 46, cards = {npu = 16, ["npu:ascend910c"] = 16}, devices = 16, cpus = 12, memory = 1536000, hosts = "cm-[01-48]", has = {cm = true, ascend910c = true}},
    },
    ["npu-small"] = {
        placed_by = "tree",
        max_minutes = 1440,
        {domain = "a2", supernode = false, nodes = 8, planning = 8, cards = {npu = 8, ["npu:ascend910b3"] = 8}, devices = 8, cpus = 24, memory = 1536000, hosts = "a2-[01-08]", has = {a2 = true, ascend910b3 = true}},
    },
}

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

-- #SN lines ----------------------------------------------------------------------------------

-- The last --cards of the script's #SN lines, which count up to the first command.
local function sn_cards(script)
    local cards, has_lines
    for line in (script:sub(1, 65536) .. "\n"):gmatch("(.-)\n") do
        if line:match("%S") and not line:match("^%s*#") then break end
        local words = line:match("^#SN%s(.*)$")
        has_lines = has_lines or words ~= nil
        local waits = false
        for word in (words or ""):gmatch("%S+") do
            if word:sub(1, 1) == "#" then break end
            local value = word:match("^%-%-cards=(.*)$") or (waits and word)
            if value then cards = value:gsub("[\"']", "") end
            waits = word == "--cards"
        end
    end
    return cards, has_lines
end

-- The kinds that --cards may mean, and how many; nil where the job is refused.
local function asked_kinds(job, asked, refuse_cards)
    if asked:find(",", 1, true) then
        return refuse_cards("several kinds: sn-submit makes a job of them: sn-submit SCRIPT")
    end
    local name, digits = asked:match("^([%w_.%-]+):(%d+)$")
    local count = first_number(digits or asked:match("^%d+$"))
    if not count then
        return refuse_cards("expected a number like --cards=64 or --cards=%s:64",
            site.kinds[1].type)
    end
    if not name then return site.kinds, count, true end
    local folded = name:lower():gsub("[%s_%-]", "")
    local kind = site.kinds[site.called[name] or site.called[folded]]
    if kind then return {kind}, count end
    return refuse_cards("no %s here; there is %s: --cards=%s:%d", shown(name), site.kind_names,
        site.kinds[1].type, count)
end

-- What the user's own options ask of cards, by field: {key, count}. Nil where he is refused.
local function said_cards(job, refuse_cards)
    local said = {}
    if ("," .. (job.tres_per_node or "")):gsub("gres[:/]", ""):find(",shard", 1, true)
        or ("," .. (job.tres_per_node or "")):gsub("gres[:/]", ""):find(",mps", 1, true) then
        return refuse_cards("whole cards, and --gres asks for parts of one: leave it out")
    end
    for field, option in pairs({tres_per_node = "--gres", tres_per_job = "--gpus",
        tres_per_task = "--gpus-per-task"}) do
        local found = {}
        if not cards_in(job[field], found) then
            return refuse_cards("cannot be read beside %s=%s: leave one of them out", option,
                shown(job[field]))
        end
        for key, count in pairs(found) do
            if said[field] then
                return refuse_cards("several kinds in %s: leave it out, or use sn-submit SCRIPT",
                    option)
            end
            said[field] = {key = key, count = count, option = option}
        end
    end
    return said
end

-- Of some kinds those that the user's own options allow.
local function allowed_kinds(kinds, said)
    local found = {}
    for _, kind in ipairs(kinds) do
        local fits_all = true
        for _, item in pairs(said) do
            fits_all = fits_all and (item.key == kind.gres
                or item.key == kind.gres .. ":" .. kind.type)
        end
        if fits_all then found[#found + 1] = kind end
    end
    return found
end

-- The devices on each node: what the user says, else as few nodes as he allows. Least nodes
-- without a most are sbatch's own: it counts those of --nodelist, or of --ntasks.
local function per_node_of(job, devices, most)
    local each = job.each_node
    if each then return each <= most and devices % each == 0 and each or nil end
    if not job.max_nodes then
        each = math.min(devices, most)
        return devices % each == 0 and each or nil
    end
    local from = math.max(job.min_nodes or 1, math.ceil(devices / most))
    for nodes = from, math.min(job.max_nodes, devices) do
        if devices % nodes == 0 then return devices / nodes end
    end
end

-- The shape of so many cards of a kind in a partition: whole nodes, or a part of one.
local function whole_nodes(job, kind, devices, partition)
    local key = kind.gres .. ":" .. kind.type
    local most = most_cards(job, {partition}, key)
    local per_node = most > 0 and per_node_of(job, devices, most)
    if not per_node then return nil, math.min(most, devices) end
    local shape = shape_in(job, {partition}, {key = key, per_node = per_node, total = devices})
    local nodes, high = shape.nodes, job.max_nodes
    if shape.there < nodes or (high and (nodes > high or nodes < (job.min_nodes or 1)))
        or (job.named and #job.named > nodes) then return nil, per_node end
    shape.kind, shape.partition, shape.devices, shape.key = kind, partition, devices, key
    return shape
end

-- The best shape for a job, and where there is none the most devices that one node takes.
local function find_shape(job, kinds, count, is_open)
    local named = job.partition and partitions_of(job)
    local lists = {choices(job, named)}
    local small = is_open and not job.partition and site.small_jobs_to
        and (not site.whole_supernode_from or count < site.whole_supernode_from)
    if small then table.insert(lists, 1, choices(job, {site.small_jobs_to})) end
    local least = 0
    for _, partitions in ipairs(lists) do
        for _, kind in ipairs(kinds) do
            local best
            for _, partition in ipairs(partitions) do
                local shape, most = whole_nodes(job, kind, count * kind.devices_per_card,
                    partition)
                if shape and (not best or shape.there > best.there) then best = shape end
                least = math.max(least, most or 0)
            end
            if best then return best end
        end
    end
    return nil, least
end

local BOUNDS = {
    {"max_nodes", "--nodes"}, {"each_node", "--gres"}, {"features", "--constraint"},
    {"req_nodes", "--nodelist"}, {"exc_nodes", "--exclude"}, {"minutes", "--time"},
    {"partition", "--partition"}, {"reservation", "--reservation"},
}

local function as_options(shape)
    return ("--partition=%s --nodes=%d --gres=%s:%d"):format(shape.partition, shape.nodes,
        shape.key, shape.per_node)
end

-- Say which option of the user's is in the way of his cards, and what goes without it.
local function no_shape(job, kinds, count, is_open, least, refuse_cards)
    for _, item in ipairs(BOUNDS) do
        if job[item[1]] then
            local less = without(job, item[1])
            local shape = find_shape(less, kinds, count, is_open)
            if shape and item[1] == "minutes" then
                return refuse_cards("%s gives %s at most: --time=%s", shape.partition,
                    duration(most_minutes(job, shape.partition)),
                    duration(most_minutes(job, shape.partition)))
            elseif shape then
                return refuse_cards("not with your %s; without it: %s", item[2],
                    as_options(shape))
            end
        end
    end
    local loose = without(job)
    loose.min_nodes, loose.max_nodes = 1, job.max_nodes or MOST
    local shape = find_shape(loose, kinds, count, is_open)
    if shape then
        return refuse_cards("no multiple of the %d of a node; with --nodes=%d each has %d", least,
            shape.nodes, shape.per_node)
    end
    if least == 0 then
        return refuse_cards("no partition that this job may use has them: sn-submit --dry-run "
            .. "SCRIPT says why")
    end
    return refuse_cards("not to be had; ask for a multiple of the %d of a node, and for no more "
        .. "than the partition has: sn-submit --dry-run SCRIPT says why", least)
end

-- Hold the number of tasks against the devices: one for each, or one for each node, which
-- starts the others itself. Return how many a node has.
local function tasks_of(job, shape, said, refuse_cards)
    for name, option in pairs({ntasks_per_socket = "--ntasks-per-socket",
        ntasks_per_core = "--ntasks-per-core", ntasks_per_tres = "--ntasks-per-gpu",
        tres_per_socket = "--gpus-per-socket"}) do
        if job[name] then
            return refuse_cards("leave %s out: %s --ntasks-per-node=%d", option,
                as_options(shape), shape.per_node)
        end
    end
    local each = job.ntasks_per_node == 1 and 1 or shape.per_node
    local tasks = job.num_tasks
    -- 22.05 counts the tasks of the nodes that are named, or of one, as those of the job.
    if not job.max_nodes and job.ntasks_per_node and (job.req_nodes or not job.min_nodes)
        and tasks == job.ntasks_per_node * (job.min_nodes or 1) then tasks = nil end
    local task = said.tres_per_task
    if (job.ntasks_per_node and job.ntasks_per_node ~= each)
        or (tasks and tasks ~= shape.nodes * each)
        or (task and task.count * each ~= shape.per_node) then
        return refuse_cards("%d on each of %d nodes, and one task for each or one for each "
            .. "node: leave --ntasks and --gpus-per-task out, with --ntasks-per-node=%d or 1",
            shape.per_node, shape.nodes, shape.per_node)
    end
    return each
end

-- The user's GRES less our cards.
local function other_gres(job)
    local kept = {}
    for part in (job.tres_per_node or ""):gmatch("[^,]+") do
        local name = part:gsub("^%s*gres[:/]", ""):match("^[%w_.%-]+")
        if not site.gres[name] then kept[#kept + 1] = part .. "," end
    end
    return table.concat(kept)
end

-- A field with the kind of card that it left open.
local function with_kind(field, kind)
    local name = "(gres[:/]" .. kind.gres:gsub("%-", "%%-") .. ")"
    return ((field .. ","):gsub(name .. "([:=]%d+,)", "%1:" .. kind.type .. "%2"):sub(1, -2))
end

local function write(job, asked, shape, each, said)
    local kind, nodes = shape.kind, shape.nodes
    local words = {}
    local function tell(option, value)
        words[#words + 1] = ("--%s=%s"):format(option, type(value) == "number"
            and ("%d"):format(value) or value)
    end
    if job.partition ~= shape.partition and not (job.partition or ""):find(",", 1, true) then
        want(job, "partition", shape.partition)
    end
    tell("partition", shape.partition)
    want(job, "min_nodes", nodes)
    want(job, "max_nodes", nodes)
    tell("nodes", nodes)
    if said.tres_per_task then
        want(job, "tres_per_task", with_kind(job.tres_per_task, kind))
        tell("gpus-per-task", ("%s:%d"):format(kind.type, said.tres_per_task.count))
    else
        want(job, "tres_per_node", other_gres(job)
            .. ("%s%s:%d"):format(site.prefix, shape.key, shape.per_node))
        tell("gres", ("%s:%d"):format(shape.key, shape.per_node))
    end
    -- Beside a kind of its own Slurm takes a number of that kind only.
    if said.tres_per_job then want(job, "tres_per_job", with_kind(job.tres_per_job, kind)) end
    if job.ntasks_per_node ~= each then
        want(job, "ntasks_per_node", each)
        want_variable(job, "SLURM_NTASKS_PER_NODE", each)
    end
    if job.num_tasks ~= nodes * each then
        want(job, "num_tasks", nodes * each)
        if job.counts_tasks then
            want_variable(job, "SLURM_NTASKS", nodes * each)
            want_variable(job, "SLURM_NPROCS", nodes * each)
        end
    end
    tell("ntasks-per-node", each)
    local own = site.partitions[shape.partition]
    if not job.cpus_per_task and not job.cpus_per_tres and not own.says_cpus then
        local cpus = shape.least.cpus * (shape.per_node / each)
        want(job, "cpus_per_task", cpus)
        want_variable(job, "SLURM_CPUS_PER_TASK", cpus)
        tell("cpus-per-task", cpus)
    end
    local live = job.open and job.open[shape.partition] or {}
    local has_default = own.says_memory or number(live.def_mem_per_node, math.huge)
        or number(live.def_mem_per_cpu, math.huge)
    if not job.says_memory and not has_default then
        want(job, "min_mem_per_node", shape.least.whole and 0 or shape.least.memory)
        tell("mem", shape.least.whole and 0 or ("%dM"):format(shape.least.memory))
    end
    -- Slurm tells a step which devices it has for gres/gpu only: no neighbours, then.
    if kind.gres ~= "gpu" and shape.per_node < shape.most then want(job, "shared", 0) end
    say(job, "#SN --cards=%s: %s", shown(asked), table.concat(words, " "))
end

-- The size that sn-submit would ask for, within what the user says.
local function fill(job)
    if not job.script then return end
    local asked, has_lines = sn_cards(job.script)
    asked = has_lines and job.sn_cards or asked
    if not asked then return end
    local function refuse_cards(format, ...)
        refuse(job, "#SN --cards=%s: " .. format, shown(asked), ...)
    end
    local said = said_cards(job, refuse_cards)
    if job.refused then return end
    local whole = job.max_nodes and next(said) ~= nil
    if job.in_het_job then
        if next(said) then return end
        return refuse_cards("the components of a heterogeneous job need their own --gres; "
            .. "sn-submit SCRIPT writes them")
    end
    if whole and asked:find(",", 1, true) then
        return say(job, "#SN --cards=%s: several kinds: left to your own options", shown(asked))
    end
    if job.partition and not partitions_of(job) then
        if whole then return end -- A partition of the site's own, and a size of the user's own.
        local other = nearest(without(job, "partition"), {key = site.kinds[1].gres, total = 1})
        return refuse_cards("the inventory has no partition %s: %s, or say --nodes and --gres "
            .. "yourself", shown(job.partition), (other or ""):match("^%S+") or "another one")
    end
    local kinds, count, is_open = asked_kinds(job, asked, refuse_cards)
    if not kinds then return end
    if said.tres_per_node then
        job.each_node = said.tres_per_node.count
    elseif said.tres_per_task and job.ntasks_per_node then
        job.each_node = said.tres_per_task.count * job.ntasks_per_node
    end
    local allowed = allowed_kinds(kinds, said)
    local total = said.tres_per_job
    if not allowed[1] or (total and total.count ~= count * allowed[1].devices_per_card) then
        local _, item = next(said)
        return refuse_cards("%s asks for others: leave it out, or ask for the same",
            (total or item).option)
    end
    local shape, least = find_shape(job, allowed, count, is_open)
    if not shape then return no_shape(job, allowed, count, is_open, least, refuse_cards) end
    local each = tasks_of(job, shape, said, refuse_cards)
    if job.refused then return end
    write(job, asked, shape, each, said)
    job.filled = true
    bound(job)
end

-- The rules: each reads the view and says what it wants ---------------------------------------

-- Whether a user's constraint names a supernode or pool: then he has chosen the place.
local function names_domain(job)
    for word in (job.features or ""):gmatch("[%w_.%-]+") do
        if site.domains[word] then return true end
    end
    return false
end

-- Small jobs to the partition that the policy gives them; others to one that can hold them.
local function route(job, size)
    if job.partition or job.reservation or job.in_het_job then return end
    local small = site.small_jobs_to
    if small and not job.req_nodes and not names_domain(job)
        and (not site.whole_supernode_from or size.total < site.whole_supernode_from)
        and choices(job, {small})[1] and holds(job, {small}, size) then
        if small ~= site.default then
            want(job, "partition", small)
            say(job, "partition %s, for jobs of few cards; another one with --partition", small)
        end
        return
    end
    local default = site.default
    if not default or site.partitions[default].foreign then return end
    local why = closed(job, default)
    if not why and not gives_time(job, default) then
        why = "gives " .. duration(most_minutes(job, default)) .. " at most"
    elseif not why and not holds(job, {default}, size) then
        why = ("has no room for %d %s"):format(size.total, called(size.key))
    end
    local other = why and roomiest(job, size)
    if other then
        want(job, "partition", other)
        say(job, "partition %s: the default one, %s, %s", other, default, why)
    end
end

-- The partitions of a job that give the time it asks for; refused where none does.
local function in_time(job, size, partitions)
    local found, most = {}, 0
    for _, partition in ipairs(partitions) do
        if gives_time(job, partition) then found[#found + 1] = partition end
        most = math.max(most, most_minutes(job, partition))
    end
    if found[1] then return found end
    local ways = {}
    if holds(job, partitions, size) then ways[1] = "--time=" .. duration(most) end
    local other = roomiest(job, size)
    local longest = other or roomiest(without(job, "minutes"), size)
    if longest and (other or not ways[1] or most_minutes(job, longest) > most) then
        ways[#ways + 1] = "--partition=" .. longest .. (other and "" or " --time="
            .. duration(most_minutes(job, longest)))
    end
    ways = ways[1] and table.concat(ways, " or ") or "sn-submit --dry-run SCRIPT says what goes"
    local names = table.concat(partitions, ",")
    if job.qos then
        say(job, "partition %s gives %s at most: unless --qos=%s gives more, the job waits for "
            .. "ever; %s", names, duration(most), shown(job.qos), ways)
        return partitions
    end
    refuse(job, "partition %s gives %s at most, the job would wait for ever: %s", names,
        duration(most), ways)
end

-- What no node, or not so many nodes, of the partitions has: never.
local function impossible(job, size, partitions)
    for _, partition in ipairs(partitions) do
        if site.partitions[partition].foreign then return end
    end
    partitions = in_time(job, size, partitions)
    if not partitions then return end
    local free = unbound(job)
    local shape = shape_in(free, partitions, size)
    local names = table.concat(partitions, ",")
    if not shape then
        local other = roomiest(free, size)
        return refuse(job, "partition %s has no %s: %s", names, called(size.key),
            other and ("--partition=%s has them"):format(other) or nearest(free, size)
            or "and no other one that this job may use; sn-submit --dry-run SCRIPT says why")
    end
    if shape.per_node > shape.most then
        return refuse(job, "no node of partition %s has %d %s: --nodes=%d --gres=%s:%d", names,
            shape.per_node, called(size.key), math.ceil(size.total / shape.most), size.key,
            shape.most)
    end
    if shape.nodes > shape.there then
        return refuse(job, "partition %s has %d nodes with %d %s, %d are asked: --nodes=%d",
            names, shape.there, shape.per_node, called(size.key), shape.nodes, shape.there)
    end
    if not holds(job, partitions, size) then
        -- Slurm knows better than the inventory which of them there are.
        say(job, "the inventory has no %d nodes with %d %s in partition %s by your --constraint, "
            .. "--nodelist, --exclude or --reservation: leave one out", shape.nodes,
            shape.per_node, called(size.key), names)
    end
end

-- The domains that can hold a job whole, as the policy orders them.
local function homes(job, size, shape)
    local supernodes, pools = {}, {}
    for _, domain in ipairs(shape.domains) do
        if domain.nodes >= shape.nodes then
            local list = domain.supernode and supernodes or pools
            list[#list + 1] = domain
        end
    end
    local from = site.whole_supernode_from
    if from and size.total >= from and supernodes[1] then return supernodes end
    local small = from and size.total < from
    local order = small and {pools, supernodes} or {supernodes, pools}
    local found = {}
    for _, list in ipairs(order) do
        for _, domain in ipairs(list) do found[#found + 1] = domain end
    end
    return found
end

-- Keep a job within one of its homes: by a matching OR of their features.
local function constrain(job, shape, found)
    local names = {}
    for _, domain in ipairs(found) do names[#names + 1] = domain.name end
    local ours = #names > 1 and "[" .. table.concat(names, "|") .. "]" or names[1]
    if job.features and not job.features:match("^[%w_.%-&]+$") then
        return say(job, "--constraint=%s stays: it may scatter the job; in one supernode with "
            .. "--constraint='%s'", shown(job.features), ours)
    end
    want(job, "features", job.features and ours .. "&" .. job.features or ours)
    say(job, "%d nodes within one of %s; over several with --constraint='%s'", shape.nodes,
        table.concat(names, ", "), table.concat(names, "|"))
end

-- The largest equal parts of a job that fit into planning blocks, if they are no crumbs.
local function part_of(nodes, planning, domains)
    for size = math.min(nodes, planning), math.ceil(planning / 2), -1 do
        local parts = 0
        for _, domain in ipairs(domains) do parts = parts + math.floor(domain.nodes / size) end
        if nodes % size == 0 and parts * size >= nodes then return size end
    end
end

-- A job over several planning blocks: in equal parts, each within one supernode.
local function split(job, size, shape, planning)
    if job.segment or (job.max_nodes and job.max_nodes ~= shape.nodes) then return end
    if job.script and job.script:find("\n#SBATCH[^\n]*%-%-segment") then return end
    local part = part_of(shape.nodes, planning, shape.domains)
    if not part then
        return say(job, "%d nodes do not divide over planning blocks of %d: --nodes=%d would",
            shape.nodes, planning, math.max(math.floor(shape.nodes / planning), 1) * planning)
    end
    if job.can_segment then
        want(job, "segment_size", part)
        say(job, "--segment=%d: %d parts, each within one supernode", part, shape.nodes / part)
    else
        say(job, "%d nodes are more than a planning block of %d: with --segment=%d each part "
            .. "lies within one supernode", shape.nodes, planning, part)
    end
end

-- Jobs of several nodes: in one supernode where one can hold them, else in equal parts.
local function place(job, size, partitions)
    local shape = shape_in(job, partitions, size)
    if not shape or shape.nodes < 2 or shape.there < shape.nodes then return end
    if (job.req_nodes or job.reservation) and not job.filled then return end
    if job.req_nodes and (not job.named or #shape.domains > 1) then return end
    local by, planning, shapes = nil, 0, nil
    for _, partition in ipairs(partitions) do
        local here = site.partitions[partition]
        by = (by == nil or by == here.placed_by) and here.placed_by or "several"
        shapes = here.shapes
    end
    if by == "ring" then return end
    if by == "torus3d" then
        if shapes and not shapes[shape.nodes] and not job.segment then
            say(job, "%d nodes are no shape of the torus: --nodes takes %s", shape.nodes,
                shapes.said)
        end
        return
    end
    local has_supernode = false
    for _, domain in ipairs(shape.domains) do
        if domain.supernode then
            has_supernode, planning = true, math.max(planning, domain.planning)
        end
    end
    local found = homes(job, size, shape)
    if not has_supernode or (by == "block" and shape.nodes <= planning) then return end
    if not found[1] then
        if by == "block" and site.segment then
            split(job, size, shape, planning)
        elseif job.exc_nodes then
            say(job, "--exclude leaves no supernode that holds %d nodes: the job may lie on "
                .. "several; leave it out, or ask for fewer --nodes", shape.nodes)
        elseif by ~= "block" then
            say(job, "%d nodes are more than one supernode has: sn-submit keeps equal parts in "
                .. "each", shape.nodes)
        end
        return
    end
    if #shape.domains > 1 or job.req_nodes then constrain(job, shape, found) end
    if found[1].supernode and shape.nodes > planning then
        say(job, "%d nodes need the spares of a supernode: the job waits until that many are "
            .. "healthy; --nodes=%d does not", shape.nodes, planning)
    end
end

-- Whether a job is of sn-submit: by the mark in its comment, or the plan in its script.
local function is_planned(job)
    if (job.script or ""):find("\nexport SN_PLAN=", 1, true) or job.comment == "sn-submit" then
        return true
    end
    for word in (job.comment or ""):gmatch("%S+") do
        if word:match("^sn%-submit:%x%x%x%x%x%x%x%x$") then return true end
    end
    return false
end

local function decide(job)
    if is_planned(job) then return end
    fill(job)
    local size = not job.refused and size_of(job)
    if not size or not site.known[size.key] then return end
    route(job, size)
    local partitions = partitions_of(job)
    if not partitions then return end
    impossible(job, size, partitions)
    if not job.refused and not names_domain(job) then place(job, size, partitions) end
end

-- What slurmctld calls ------------------------------------------------------------------------

function slurm_job_submit(job_desc, part_list, submit_uid)
    local good, result = pcall(function()
        local job = view_of(job_desc, part_list)
        job.wanted, job.said = {}, {}
        bound(job)
        decide(job)
        if not job.refused then
            for _, item in ipairs(job.wanted) do
                local target = item[3] and job_desc[item[3]] or job_desc
                target[item[1]] = item[2]
            end
        end
        for _, message in ipairs(job.said) do slurm.log_user("%s", "sn: " .. message) end
        return job.refused
    end)
    if not good then
        local cause = tostring(result):sub(1, 500):gsub("%c", " ")
        slurm.log_error("%s", "sn: job_submit.lua: " .. cause .. "; the job goes on as it is")
    elseif result then
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
