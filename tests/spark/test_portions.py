"""Which tasks run together: nothing is left out, long ones come first, small ones are not sent alone."""

from hypothesis import given
from hypothesis import strategies as st

from pleach.spark.task_partitions import PORTION_SECONDS, PORTION_TASKS_MAX, PORTIONS_PER_CORE, CampaignTask, Waiting

TASKS = st.lists(
    st.builds(CampaignTask, case=st.sampled_from("abcdef"), seed=st.integers(0, 10_000), cost=st.floats(0.001, 1_000)),
    max_size=80,
)


def emptied(waiting, seconds=lambda task: task.cost):
    """All jobs, each learned from before the next is cut."""
    jobs = []
    while waiting:
        jobs.append(waiting.next_job())
        for task in (task for portion in jobs[-1] for task in portion):
            waiting.forecast.learn(task, seconds(task))
    return jobs


@given(TASKS, st.integers(1, 12))
def test_every_task_is_in_one_portion_of_one_job(tasks, portions_max):
    jobs = emptied(Waiting(tasks, portions_max))
    assert sorted(task for job in jobs for portion in job for task in portion) == sorted(tasks)
    assert all(0 < len(job) <= portions_max for job in jobs)
    assert all(portion for job in jobs for portion in job)


def test_before_anything_is_known_each_core_gets_one_task():
    waiting = Waiting([CampaignTask("a", seed) for seed in range(100)], 4 * PORTIONS_PER_CORE)
    assert [len(portion) for portion in waiting.next_job()] == [1] * 4


def test_small_tasks_are_sent_together():
    waiting = Waiting([CampaignTask("a", seed) for seed in range(1_000)], 4)
    waiting.forecast.learn(CampaignTask("a", 0), PORTION_SECONDS / 50)
    assert [len(portion) for portion in waiting.next_job()] == [50] * 4


def test_a_portion_has_a_bound_however_small_its_tasks_are():
    waiting = Waiting([CampaignTask("a", seed) for seed in range(3_000)], 2)
    waiting.forecast.learn(CampaignTask("a", 0), 0.0)
    assert [len(portion) for portion in waiting.next_job()] == [PORTION_TASKS_MAX] * 2


def test_the_last_job_is_cut_for_all_cores():
    waiting = Waiting([CampaignTask("a", seed) for seed in range(80)], 8)
    waiting.forecast.learn(CampaignTask("a", 0), PORTION_SECONDS / 15)
    assert [len(portion) for portion in waiting.next_job()] == [10] * 8


def test_long_tasks_come_first_by_their_cost_at_the_pace_of_what_is_known():
    waiting = Waiting(
        [CampaignTask("short", 0, cost=1.0), CampaignTask("long", 0, cost=40.0), CampaignTask("middle", 0, cost=9.0)], 8
    )
    waiting.forecast.learn(CampaignTask("other", 0, cost=2.0), 4.0)
    assert waiting.forecast.seconds(CampaignTask("long", 1, cost=40.0)) == 80.0
    assert [portion[0].case for portion in waiting.next_job()] == ["long", "middle", "short"]


def test_what_tasks_of_a_case_took_counts_more_than_their_cost():
    waiting = Waiting([CampaignTask("said-to-be-long", 1, cost=40.0), CampaignTask("long", 1, cost=1.0)], 8)
    waiting.forecast.learn(CampaignTask("said-to-be-long", 0, cost=40.0), 0.5)
    waiting.forecast.learn(CampaignTask("long", 0, cost=1.0), 7.0)
    assert [portion[0].case for portion in waiting.next_job()] == ["long", "said-to-be-long"]
    assert waiting.seconds() == 0.0
