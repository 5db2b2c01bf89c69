-- Written by 'sn generate' for cluster torus and Slurm 26.05.
-- Do not edit: change the inventory and generate again.
local site = {
    default = "torus",
    segment = true,
    prefix = "gres/",
    order = {"torus"},
    domains = {cube = true},
    gres = {dcu = true},
    known = {dcu = true, ["dcu:dcubw1000"] = true},
    features = {cube = true, dcubw1000 = true},
    kinds = {{type = "dcubw1000", gres = "dcu", devices_per_card = 1}},
    kind_names = "dcubw1000",
    called = {dcubw1000 = 1, bw1000 = 1, bw200 = 1, bw = 1},
}
site.partitions = {
    ["torus"] = {
        placed_by = "torus3d",
        max_minutes = 2880,
        shapes = {said = "1, 2, 4, 8, 16, 32, 64", [1] = true, [2] = true, [4] = true, [8] = true, [16] = true, [32] = true, [64] = true},
        {domain = "cube", supernode = true, nodes = 64, planning = 64, cards = {dcu = 8, ["dcu:dcubw1000"] = 8}, devices = 8, cpus = 8, memory = 512000, hosts = "t[01-64]", has = {cube = true, dcubw1000 = true}},
    },
}
