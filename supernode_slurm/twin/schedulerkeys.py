"""The names that SchedulerParameters may hold, by release, as data.

From slurm.conf(5) of 22.05.8, 24.11.5 and 26.05.5, and what their slurmctld reads without
saying so there (``max_job_bf``, ``max_rpc_count`` and the like, found in the programs).
slurmctld passes over any other name without a word.
"""

from __future__ import annotations

_ALWAYS = """
    Ignore_NUMA allow_zero_lic assoc_limit_stop batch_sched_delay bb_array_stage_cnt bf_busy_nodes
    bf_continue bf_hetjob_immediate bf_hetjob_prio bf_interval bf_job_part_count_reserve
    bf_licenses bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_start
    bf_max_job_test bf_max_job_user bf_max_job_user_part bf_max_time bf_min_age_reserve
    bf_min_prio_reserve bf_node_space_size bf_one_resv_per_job bf_resolution
    bf_running_job_reserve bf_window bf_window_linear bf_yield_interval bf_yield_sleep
    build_queue_timeout correspond_after_task_cnt default_queue_depth defer delay_boot
    disable_hetjob_steps disable_job_shrink enable_hetjob_steps enable_user_top
    ignore_prefer_validation kill_invalid_depend max_array_tasks max_depend_depth max_job_bf
    max_rpc_cnt max_rpc_count max_sched_time max_script_size max_switch_wait no_backup_scheduling
    nohold_on_prolog_fail pack_serial_at_end partition_job_depth reduce_completing_frag
    salloc_wait_nodes sbatch_wait_nodes sched_interval sched_max_job_start sched_min_interval
    spec_cores_first step_retry_count step_retry_time whole_hetjob
"""
_SINCE_24_11 = """
    bf_allow_magnetic_slot bf_topopt_enable bf_topopt_iterations defer_batch extra_constraints
    ignore_constraint_validation max_submit_line_size time_min_as_soft_limit
"""
_ONLY = {
    "22.05": """
        no_env_cache preempt_reorder_count preempt_strict_order preempt_youngest_first
        requeue_setup_env_fail
    """,
    "24.11": f"{_SINCE_24_11} enable_job_state_cache no_env_cache requeue_setup_env_fail",
    "26.05": f"""
        {_SINCE_24_11} bf_yield_rpc_cnt bf_yield_rpc_count requeue_delay requeue_on_resume_failure
    """,
}
_TABLES = {release: frozenset(f"{_ALWAYS} {only}".split()) for release, only in _ONLY.items()}


def scheduler_keys(release: str) -> frozenset[str]:
    """Return the names that a release knows; one between two of the table knows those of both."""
    before = max((known for known in _TABLES if known <= release), default=min(_TABLES))
    after = min((known for known in _TABLES if known >= release), default=before)
    return _TABLES[before] | _TABLES[after]
