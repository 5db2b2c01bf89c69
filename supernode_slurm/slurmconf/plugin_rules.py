"""The rules of job_submit.lua: Lua text, alike for every site and release.

Rules read a view of the job and note what they want; it is written to the job at the end,
so that an error leaves the job as it was. A new rule is a function of the view, called in
``decide``.
"""

from __future__ import annotations

RULES = r"""
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
"""
