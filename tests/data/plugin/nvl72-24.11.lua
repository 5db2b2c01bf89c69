-- Written by 'sn generate' for cluster nvl72 and Slurm 24.11.
-- Do not edit: change the inventory and generate again.
local site = {
    default = "train",
    whole_supernode_from = 64,
    segment = true,
    prefix = "gres/",
    order = {"train"},
    domains = {nvl1 = true, nvl2 = true, nvl3 = true, nvl4 = true},
    gres = {gpu = true},
    known = {gpu = true, ["gpu:gb200"] = true},
    features = {gb200 = true, nvl1 = true, nvl2 = true, nvl3 = true, nvl4 = true},
    kinds = {{type = "gb200", gres = "gpu", devices_per_card = 1}},
    kind_names = "gb200",
    called = {gb200 = 1, nvidiagb200 = 1, gb200nvl72 = 1},
}
site.partitions = {
    ["train"] = {
        placed_by = "block",
        max_minutes = 10080,
        {domain = "nvl1", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl1-[01-18]", has = {nvl1 = true, gb200 = true}},
        {domain = "nvl2", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl2-[01-18]", has = {nvl2 = true, gb200 = true}},
        {domain = "nvl3", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl3-[01-18]", has = {nvl3 = true, gb200 = true}},
        {domain = "nvl4", supernode = true, nodes = 18, planning = 16, cards = {gpu = 4, ["gpu:gb200"] = 4}, devices = 4, cpus = 36, memory = 962560, hosts = "nvl4-[01-18]", has = {nvl4 = true, gb200 = true}},
    },
}
