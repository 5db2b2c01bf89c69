"""#SN --cards of a plain sbatch in job_submit.lua: Lua text, alike for every site and release.

What the user left open becomes what ``sn-submit`` would ask for; what he said stays, and where
both cannot be had the job is refused with the options that would do.
"""

from __future__ import annotations

FILL = r"""
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
"""
