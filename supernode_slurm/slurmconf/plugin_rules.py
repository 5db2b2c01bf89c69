"""The rules of job_submit.lua: Lua text, alike for every site and release.

Rules read a view of the job and note what they want; it is written to the job at the end,
so that an error leaves the job as it was. A new rule is a function of the view, called in
``decide``.
"""

from __future__ import annotations

RULES = r"""
-- The rules: each reads the view and says what it wants ---------------------------------------

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

-- The shape of so many cards of a kind in a partition: whole nodes, or a part of one.
local function whole_nodes(kind, devices, partition)
    local key = kind.gres .. ":" .. kind.type
    local per_node = math.min(devices, most_cards({partition}, key))
    if per_node == 0 or devices % per_node ~= 0 then return nil, per_node end
    local shape = shape_in({partition}, {key = key, per_node = per_node, total = devices})
    if shape.there < shape.nodes then return nil, per_node end
    shape.kind, shape.partition = kind, partition
    return shape
end

local function best_shape(kind, count, partitions)
    local best, least
    for _, partition in ipairs(partitions) do
        local shape, per_node = whole_nodes(kind, count * kind.devices_per_card, partition)
        if shape and (not best or shape.there > best.there) then best = shape end
        least = math.max(least or 0, per_node or 0)
    end
    return best, least
end

-- #SN --cards of a plain sbatch: the size that sn-submit would ask for.
local function fill(job)
    if not job.script or job.in_het_job then return end
    local asked, has_lines = sn_cards(job.script)
    asked = has_lines and job.sn_cards or asked
    if not asked then return end
    local tres = (job.tres_per_node or "") .. (job.tres_per_job or "") .. (job.tres_per_task or "")
    if job.min_nodes or job.num_tasks or job.ntasks_per_node or job.req_nodes or job.reservation
        or (tres .. (job.tres_per_socket or "")):find("gres", 1, true) then return end
    if asked:find(",", 1, true) then
        return refuse(job, "#SN --cards=%s: several kinds need a heterogeneous job, which only "
            .. "sn-submit makes: sn-submit SCRIPT", shown(asked))
    end
    local name, digits = asked:match("^([%w_.%-]+):(%d+)$")
    local count = first_number(digits or asked:match("^%d+$"))
    if not count then
        return refuse(job, "#SN --cards=%s: expected a number like 64 or %s:64", shown(asked),
            site.kinds[1].type)
    end
    local kinds = site.kinds
    if name then
        local folded = name:lower():gsub("[%s_%-]", "")
        kinds = {site.kinds[site.called[name] or site.called[folded]]}
        if not kinds[1] then
            return refuse(job, "#SN --cards=%s: no %s here; there is %s", shown(asked),
                shown(name), site.kind_names)
        end
    end
    local partitions = site.order
    if job.partition then partitions = partitions_of(job) end
    if not partitions then return end -- a partition of the site's own
    local small = not name and site.small_jobs_to
        and (not site.whole_supernode_from or count < site.whole_supernode_from)
    local best, least
    for _, choice in ipairs(small and not job.partition and {{site.small_jobs_to}, partitions}
        or {partitions}) do
        for _, kind in ipairs(kinds) do
            local shape, per_node = best_shape(kind, count, choice)
            best, least = best or shape, math.max(least or 0, per_node or 0)
        end
    end
    if not best then
        if least == 0 then
            return refuse(job, "#SN --cards=%s: none in partition %s; name another with "
                .. "--partition", shown(asked), shown(job.partition or ""))
        end
        return refuse(job, "#SN --cards=%s: not to be had; ask for a multiple of the %d of a "
            .. "node, and for no more than the partition has: sn-submit --dry-run says why",
            shown(asked), least)
    end
    if job.partition ~= best.partition and not (job.partition or ""):find(",", 1, true) then
        want(job, "partition", best.partition)
    end
    want(job, "min_nodes", best.nodes)
    want(job, "max_nodes", best.nodes)
    want(job, "tres_per_node", ("%s%s:%s:%d"):format(site.prefix, best.kind.gres, best.kind.type,
        best.per_node))
    want(job, "ntasks_per_node", best.per_node)
    want(job, "num_tasks", best.nodes * best.per_node)
    want_variable(job, "SLURM_NTASKS_PER_NODE", best.per_node)
    if not job.cpus_per_task then
        want(job, "cpus_per_task", best.kind.cpus_per_device)
        want_variable(job, "SLURM_CPUS_PER_TASK", best.kind.cpus_per_device)
    end
    -- Slurm tells a step which devices it has for gres/gpu only: no neighbours, then.
    if best.kind.gres ~= "gpu" and best.per_node < best.most then want(job, "shared", 0) end
    say(job, "#SN --cards=%s: --partition=%s --nodes=%d --gres=%s:%s:%d --ntasks-per-node=%d "
        .. "--cpus-per-task=%d", shown(asked), best.partition, best.nodes, best.kind.gres,
        best.kind.type, best.per_node, best.per_node, job.cpus_per_task)
end

-- Small jobs to the partition that the policy gives them; others to one that can hold them.
local function route(job, size)
    if job.partition or job.reservation or job.req_nodes or job.in_het_job then return end
    local small = site.small_jobs_to
    if small and (not site.whole_supernode_from or size.total < site.whole_supernode_from) then
        local shape = shape_in({small}, size)
        if shape and shape.there >= shape.nodes then
            if small ~= site.default then
                want(job, "partition", small)
                say(job, "partition %s, for jobs of few cards; another one with --partition", small)
            end
            return
        end
    end
    local partitions = partitions_of(job)
    if not partitions or site.partitions[partitions[1]].foreign then return end
    local shape = shape_in(partitions, size)
    if shape and shape.there >= shape.nodes then return end
    local other = roomiest(size)
    if other then
        want(job, "partition", other)
        say(job, "partition %s: the default one, %s, has no room for %d %s", other,
            partitions[1], size.total, called(size.key))
    end
end

-- What no node, or not so many nodes, of the partitions has: never.
local function impossible(job, size, partitions)
    for _, partition in ipairs(partitions) do
        if site.partitions[partition].foreign then return end
    end
    local shape = shape_in(partitions, size)
    local names = table.concat(partitions, ",")
    if not shape then
        local other = roomiest(size)
        local hint = other and (": --partition=%s has them"):format(other) or ""
        return refuse(job, "partition %s has no %s%s", names, called(size.key), hint)
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
end

-- The domains that can hold a job whole, as the policy orders them.
local function homes(job, size, shape)
    local excluded = job.exc_nodes and count_hosts(job.exc_nodes) or 0
    local supernodes, pools = {}, {}
    for _, domain in ipairs(shape.domains) do
        if domain.nodes - excluded >= shape.nodes then
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
    local shape = shape_in(partitions, size)
    if shape.nodes < 2 or job.req_nodes or job.reservation then return end
    local by, planning, shapes = nil, 0, nil
    for _, partition in ipairs(partitions) do
        local here = site.partitions[partition]
        by = (by == nil or by == here.placed_by) and here.placed_by or "several"
        shapes = here.shapes
    end
    if by == "ring" then return end
    if by == "torus3d" then
        if shapes and not shapes[shape.nodes] and not job.segment then
            say(job, "%d nodes are no shape of the torus: %s are", shape.nodes, shapes.said)
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
            say(job, "--exclude leaves no supernode that is sure to hold %d nodes", shape.nodes)
        elseif by ~= "block" then
            say(job, "%d nodes are more than one supernode has: sn-submit keeps equal parts in "
                .. "each", shape.nodes)
        end
        return
    end
    if #shape.domains > 1 then constrain(job, shape, found) end
    if found[1].supernode and shape.nodes > planning then
        say(job, "%d nodes need the spares of a supernode: the job waits until that many are "
            .. "healthy; --nodes=%d does not", shape.nodes, planning)
    end
end

-- Whether a job is placed already: by sn-submit, or by a user who named a supernode.
local function is_placed(job)
    if (job.comment or ""):find("sn-submit", 1, true)
        or (job.script or ""):find("\nexport SN_PLAN=", 1, true) then return true end
    for word in (job.features or ""):gmatch("[%w_.%-]+") do
        if site.domains[word] then return true end
    end
    return false
end

local function decide(job)
    if is_placed(job) then return end
    fill(job)
    local size = not job.refused and size_of(job)
    if not size or not site.known[size.key] then return end
    route(job, size)
    local partitions = partitions_of(job)
    if not partitions then return end
    impossible(job, size, partitions)
    if not job.refused then place(job, size, partitions) end
end

-- What slurmctld calls ------------------------------------------------------------------------

function slurm_job_submit(job_desc, part_list, submit_uid)
    local good, result = pcall(function()
        local job = view_of(job_desc)
        job.wanted, job.said = {}, {}
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
"""
