"""The process of a machine that runs its own broker, in the test's event loop."""

import asyncio
from http import HTTPStatus

from pleach.net.http_client import ask
from pleach.server.http.page import json_page
from pleach.server.http.routes import reads
from pleach.server.settings import BrokerSettings
from pleach.server.standby.process import MachineProcess
from pleach.server.standby.settings import StandbySettings

SECONDS_MAX = 60


async def more(_):
    return json_page(HTTPStatus.OK, {"more": True})


def test_operators_of_a_broker_with_copies_have_all_its_pages(tmp_path):
    """Those that its process was given, as the dashboard, and those of its machine."""

    async def story():
        ready = asyncio.get_running_loop().create_future()
        settings = BrokerSettings("b", data_dir=str(tmp_path), standby=StandbySettings())
        process = MachineProcess(
            settings, reload=lambda: settings, on_ready=ready.set_result, routes=[reads("/more", more)]
        )
        running = asyncio.create_task(process.run())
        admin = (await ready).admin
        answers = {path: await ask(admin, path, seconds_max=SECONDS_MAX) for path in ("/more", "/standby", "/status")}
        process._primary._daemon._stop.set()
        assert await running == 0
        assert {path: answer.code for path, answer in answers.items()} == dict.fromkeys(answers, HTTPStatus.OK)
        assert answers["/more"].value == {"more": True}
        assert answers["/standby"].value["machine"].startswith("b#")

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
