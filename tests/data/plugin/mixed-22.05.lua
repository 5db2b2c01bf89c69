-- Written by 'sn generate' for cluster mixed and Slurm 22.05.
-- Do not edit: change the inventory and generate again.
local site = {
    default = "small",
    whole_supernode_from = 64,
    small_jobs_to = "small",
    segment = false,
    prefix = "gres:",
    order = {"train", "ascend", "small"},
    domains = {sn1 = true, sn2 = true, ascend = true, ["pool-a100"] = true},
    gres = {gpu = true},
    known = {gpu = true, ["gpu:h100"] = true, ["gpu:ascend910c"] = true, ["gpu:a100"] = true},
    features = {a100 = true, ascend = true, ascend910c = true, h100 = true, ["pool-a100"] = true, sn1 = true, sn2 = true},
    kinds = {{type = "h100", gres = "gpu", devices_per_card = 1}, {type = "ascend910c", gres = "gpu", devices_per_card = 2}, {type = "a100", gres = "gpu", devices_per_card = 1}},
    kind_names = "h100, ascend910c, a100",
    called = {h100 = 1, ascend910c = 2, a100 = 3, a100sxm80g = 3, a100sxm480gb = 3, nvidiaa100sxm480gb = 3, a10080g = 3, a100nvlink80g = 3, h100sxm = 1, h100sxm5 = 1, nvidiah10080gbhbm3 = 1, h100sxm580gb = 1, ["910c"] = 2, ascend91093 = 2, atlas800ta3 = 2, a3 = 2, atlas800a3752t128g = 2},
}
site.partitions = {
    ["train"] = {
        placed_by = "tree",
        max_minutes = 10080,
        {domain = "sn1", supernode = true, nodes = 8, planning = 8, cards = {gpu = 8, ["gpu:h100"] = 8}, devices = 8, cpus = 12, memory = 1945600, hosts = "h1-[01-08]", has = {sn1 = true, h100 = true}},
        {domain = "sn2", supernode = true, nodes = 8, planning = 8, cards = {gpu = 8, ["gpu:h100"] = 8}, devices = 8, cpus = 12, memory = 1945600, hosts = "h2-[01-08]", has = {sn2 = true, h100 = true}},
        {domain = "pool-a100", supernode = false, nodes = 4, planning = 4, cards = {gpu = 8, ["gpu:a100"] = 8}, devices = 8, cpus = 16, memory = 1024000, hosts = "a[01-04]", has = {["pool-a100"] = true, a100 = true}},
    },
    ["ascend"] = {
        placed_by = "tree",
        max_minutes = 10080,
        {domain = "ascend", supernode = true, nodes = 4, planning = 4, cards = {gpu = 16, ["gpu:ascend910c"] = 16}, devices = 16, cpus = 12, memory = 1945600, hosts = "asc-[01-04]", has = {ascend = true, ascend910c = true}},
    },
    ["small"] = {
        placed_by = "tree",
        max_minutes = 1440,
        {domain = "pool-a100", supernode = false, nodes = 4, planning = 4, cards = {gpu = 8, ["gpu:a100"] = 8}, devices = 8, cpus = 16, memory = 1024000, hosts = "a[01-04]", has = {["pool-a100"] = true, a100 = true}},
    },
}
