# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

repo=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$repo/.venv

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die CODE MESSAGE...
die() {
    local code=$1
    shift
    say "error: $*"
    exit "$code"
}

is_root() { [[ $(id -u) -eq 0 ]]; }

can_apt() { is_root && command -v apt-get >/dev/null; }

# apt_install PACKAGE...: install from the machine's own mirror without starting any service.
apt_install() (
    say "apt-get install $*"
    log=$(mktemp)
    policy=/usr/sbin/policy-rc.d
    made_policy=
    trap 'rm -f -- "$log" ${made_policy:+"$policy"}' EXIT
    if [[ ! -e $policy ]]; then
        made_policy=yes
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    install=(apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@")
    if ! "${install[@]}" </dev/null >"$log" 2>&1; then
        # The package lists may be missing (a fresh image) or older than the mirror.
        if ! { apt-get -q update && "${install[@]}"; } </dev/null >>"$log" 2>&1; then
            tail -n 25 -- "$log" >&2
            say "error: apt-get could not install: $*"
            return 1
        fi
    fi
)

# find_python: print the interpreter that venvs are made of, all links followed, so that
# bin/python of the venv never points at a name that means another version in a lab root.
find_python() {
    local python=${PYTHON:-python3}
    "$python" -c 'import os, sys
sys.version_info >= (3, 10) or sys.exit(1)
print(os.path.realpath(sys.executable))' 2>/dev/null ||
        die 1 "$python is missing or older than 3.10: install Python 3.10 or newer, or set PYTHON"
}

# ensure_venv [EXTRAS]: create .venv, or renew it when its inputs changed; keeps a venv that
# already holds more than asked.
ensure_venv() {
    local extras=${1:-} python wanted have=
    # Inside a root of slurm-lab the venv is the outer machine's, whose Python differs.
    [[ -z ${SLURM_LAB_ROOT:-} ]] || return 0
    python=$(find_python)
    wanted=$({
        printf '%s\n' "$repo" "$python"
        cat -- "$repo/setup.cfg" "$repo/pyproject.toml"
    } | sha256sum | cut -d ' ' -f 1)
    [[ ! -f $venv/.made-from ]] || have=$(<"$venv/.made-from")
    if [[ $have == "$wanted $extras" || (-z $extras && $have == "$wanted "*) ]] &&
        "$venv/bin/python" -c '' 2>/dev/null; then
        return
    fi
    [[ -n $extras || $have != *" "* ]] || extras=${have#* } # a renewed venv loses nothing
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        can_apt || die 1 "$python cannot make venvs: install the package python3-venv"
        apt_install python3-venv
    fi
    say "installing the package${extras:+ with [$extras]} into .venv"
    rm -rf -- "$venv"
    "$python" -m venv -- "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install -q \
        -e "$repo${extras:+[$extras]}" </dev/null >&2
    printf '%s\n' "$wanted $extras" >"$venv/.made-from"
}

# ensure_torch: have torch for the proofs by training, where pip finds a build for CPUs. Only such a
# build is called +cpu: the plain one brings gigabytes of one vendor's libraries.
ensure_torch() {
    local wheel
    [[ -z ${SLURM_LAB_ROOT:-} ]] || return 0
    ! "$venv/bin/python" -c 'import torch' 2>/dev/null || return 0
    wheel=$(sed -n 's/^ *\(torch==[0-9.]*\)$/\1+cpu/p' "$repo/setup.cfg")
    say "installing $wheel into .venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install -q --only-binary torch \
        "$wheel" </dev/null >&2 ||
        say "warning: no $wheel to be had here: the proofs by training are skipped"
}

# ensure_frameworks: have the training frameworks that check what is emitted for them; 3 GB.
ensure_frameworks() {
    [[ -z ${SLURM_LAB_ROOT:-} ]] || return 0
    "$venv/bin/python" -c 'import torch' 2>/dev/null || return 0
    ! "$venv/bin/python" -c 'import megatron.core, deepspeed, torchtitan' 2>/dev/null || return 0
    say 'installing training frameworks into .venv'
    "$venv/bin/python" -m pip --disable-pip-version-check install -q \
        -e "${repo}[frameworks]" </dev/null >&2 ||
        say 'warning: the training frameworks are not to be had here: their checks are skipped'
}
