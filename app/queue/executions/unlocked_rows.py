"""CTEs with the executions `:ids` and the jobs `:jobs`, up to `:count`, that no other transaction has locked.

A statement that waited for one locked row would keep all other rows of its batch.
"""

FREE_EXECUTIONS = """free AS MATERIALIZED (
      SELECT execution_id FROM executions WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id LIMIT :count FOR UPDATE SKIP LOCKED)"""
FREE_JOBS = """free_jobs AS MATERIALIZED (
      SELECT job_id FROM jobs WHERE job_id = ANY (CAST(:jobs AS TEXT[]))
       ORDER BY job_id LIMIT :count FOR NO KEY UPDATE SKIP LOCKED)"""
