import asyncio

from stormcell import AsyncSandbox


def test_async_handlers_input_and_streams(home, template):
    async def main() -> None:
        async with await AsyncSandbox.create(template) as sbx:
            seen = []

            async def handler(piece: bytes) -> None:
                await asyncio.sleep(0)
                seen.append(piece)

            async def source():
                for n in range(3):
                    yield f"{n}\n".encode()

            result = await sbx.exec(["cat"], stdin=source(), on_stdout=handler)
            assert result.stdout == b"0\n1\n2\n" == b"".join(seen)

            async with await sbx.start("cat; echo e >&2", stdin=True) as command:
                await command.write_stdin(b"abc")
                await command.close_stdin()

                async def collect(chunks):
                    return b"".join([chunk async for chunk in chunks])

                out, err = await asyncio.gather(collect(command.stdout()), collect(command.stderr()))
                assert (out, err) == (b"abc", b"e\n")
                assert (await command.wait()).exit_code == 0

            async with asyncio.TaskGroup() as tasks:
                work = [tasks.create_task(sbx.exec(f"sleep 0.2; exit {n}")) for n in range(10)]
            assert [task.result().exit_code for task in work] == list(range(10))

    asyncio.run(main())


def test_several_at_once_are_created_side_by_side(home, template):
    async def main() -> None:
        made = await asyncio.gather(*(AsyncSandbox.create(template) for _ in range(4)))
        answers = await asyncio.gather(*(sbx.exec("cat /proc/sys/kernel/hostname") for sbx in made))
        assert [answer.text.strip() for answer in answers] == [sbx.id for sbx in made]
        assert all(evidence.complete for evidence in await asyncio.gather(*(sbx.kill() for sbx in made)))

    asyncio.run(main())
