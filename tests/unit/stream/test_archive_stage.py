"""The archiver's work on messages of judged events, and on the archive, at every point of a crash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import polars as pl
import pytest
from tracline.archive.chunk import ArchiveCheckpoint, Chunk
from tracline.archive.error import SourceError
from tracline.archive.gaps import gaps
from tracline.archive.manifest import Manifest, ManifestSource, read_manifest
from tracline.archive.shared_writer import LiveArchive
from tracline.batch.sources import discover as read
from tracline.batch.sources.discover import Population, discover
from tracline.cli.commands.stream import archive as stream_archive
from tracline.schemas.event import Event, Kind
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import JudgedBatch, Mark, encode, judged_messages
from tracline.stream.messages.record import Record
from tracline.stream.stages.archive import EVERY_S, ROWS_MAX, ChunkLimits, resumed, too_many

from ...support.taking_buffer import TakingBuffer

DAY = 86_400 * NS
BEGIN = 20_000 * DAY
OLD, NEW = "a" * 64, "b" * 64
SOURCE = ManifestSource("kafka-tracline.judged", "c" * 64, partition=1)


def event(number: int) -> Event:
    """The events of two sessions in turn, over two days."""
    session = f"s{number % 2}"
    time = BEGIN + number * 3600 * NS
    return Event(session, BEGIN + number % 2, time, number // 2 + 1, Kind.USER, event_id=f"{number:032x}")


def judged(offset: int, numbers: Sequence[int], index: int = 0, watermark: int | None = None) -> bytes:
    """A message made of the message at that offset."""
    events = [event(number) for number in numbers]
    sets = [number % 2 for number in numbers]
    return encode(JudgedBatch(Mark(1, offset, index), watermark, events, [OLD, NEW], sets))


def records(values: Sequence[bytes], first: int = 0) -> Iterator[Record]:
    """Messages as they stand in the topic, one a second."""
    for number, value in enumerate(values, start=first):
        yield Record(1, number, BEGIN + number * NS, value)


def buffer(checkpoint: ArchiveCheckpoint | None = None, limits: ChunkLimits | None = None) -> TakingBuffer:
    """Return what gathers partition 1."""
    return TakingBuffer(1, checkpoint or ArchiveCheckpoint(0, 0), limits)


def test_what_a_restart_made_again_is_dropped() -> None:
    """Of messages with a mark that is not above the last, nothing is gathered; what is new follows."""
    chunks = buffer()
    values = [judged(5, [0]), judged(5, [1], 1), judged(5, [0]), judged(5, [1], 1), judged(6, [2])]
    for record in records(values):
        assert chunks.take(record) is None
    chunk = chunks.chunk
    assert [chunks.event_id[-1] for chunks in chunk.events] == ["0", "1", "2"]
    assert chunk.rules == [OLD, NEW, OLD]
    assert (chunk.offsets, chunk.next, chunk.mark) == ((0, 4), 5, (6, 0))
    assert chunks.repeats == 2


def test_the_mark_outlives_a_restart() -> None:
    """A message that comes again after a restart is known by the mark in the manifest."""
    chunks = buffer(ArchiveCheckpoint(7, 7, (6, 0)))
    for record in records([judged(5, [0]), judged(6, [1]), judged(7, [2])], first=7):
        chunks.take(record)
    assert [chunks.event_id[-1] for chunks in chunks.chunk.events] == ["2"]


def test_what_holds_no_rows_belongs_to_the_range_of_the_next_file() -> None:
    """Ticks move on what was dealt with, and the next file's range begins before them: there is no gap."""
    chunks = buffer()
    for record in records([judged(0, [], watermark=BEGIN), judged(1, [], watermark=BEGIN + 1)]):
        chunks.take(record)
    chunk = chunks.chunk
    assert (chunk.watermark, chunk.checkpoint) == (BEGIN + 1, ArchiveCheckpoint(2, 0, (1, 0)))
    chunks.archived(chunk.checkpoint)
    assert chunks.is_empty
    chunks.take(Record(1, 2, BEGIN, judged(2, [0])))
    assert chunks.chunk.offsets == (0, 2)
    assert chunks.chunk.checkpoint == ArchiveCheckpoint(3, 3, (2, 0))


@pytest.mark.parametrize(
    ("limits", "taken"),
    [(ChunkLimits(rows=3), 2), (ChunkLimits(bytes=1), 1), (ChunkLimits(every_s=3.0), 4), (ChunkLimits(), 6)],
    ids=["rows", "bytes", "record time", "none"],
)
def test_enough_is_due(limits: ChunkLimits, taken: int) -> None:
    """So many rows, so many bytes or so many seconds of record time are archived, whatever comes first."""
    chunks = buffer(limits=limits)
    count = 0
    for record in records([judged(number, [2 * number, 2 * number + 1]) for number in range(6)]):
        chunks.take(record)
        count += 1
        if chunks.is_due:
            break
    assert count == taken
    assert chunks.is_due == (limits != ChunkLimits())
    assert chunks.is_ready


@pytest.mark.slow
def test_a_quiet_partition_makes_few_files() -> None:
    """A message a second, as ticks come, and few sessions: soon a file, then four an hour, not sixty."""
    chunks, after = buffer(), []
    messages = records([judged(number, [number] if number % 20 == 0 else []) for number in range(5000)])
    for second, record in enumerate(messages):
        chunks.take(record)
        if chunks.is_due:
            after.append(second)
            chunks.archived(chunks.chunk.checkpoint)
    waits = [end - begin for begin, end in pairwise([-1, *after])]
    assert waits == [wait + 1 for wait in (15, 30, 60, 120, 240, 480, 900, 900, 900, 900)]
    assert chunks.buffer.progress.rows > 0
    assert (stream_archive.ROWS, stream_archive.EVERY_S) == (ROWS_MAX, EVERY_S)


def test_what_is_gathered_of_all_partitions_is_bounded() -> None:
    """If it is too much together the largest are archived; a range that is written again stays whole."""
    gathered = {number: buffer() for number in range(4)}
    gathered[3] = buffer(ArchiveCheckpoint(0, 0, pending=(0, 99)))
    message = judged(0, [0])
    for number, chunks in gathered.items():
        for offset in range(number + 1):
            chunks.take(Record(1, offset, BEGIN, judged(offset, [offset])))
    size = len(message)
    buffers = {number: taking.buffer for number, taking in gathered.items()}
    assert too_many(buffers, 11 * size) == []
    assert too_many(buffers, 9 * size) == [2]
    assert too_many(buffers, 6 * size) == [2, 1]
    assert too_many(buffers, 0) == [2, 1, 0]


def test_what_cannot_be_read_is_a_dead_letter_and_a_gap() -> None:
    """No message of any release: a dead letter has its digest, and the archive chunk ends before it."""
    chunks = buffer()
    chunks.take(Record(1, 0, BEGIN, judged(0, [0])))
    letter = chunks.take(Record(1, 1, BEGIN, b"secret"))
    assert letter is not None
    assert (letter.partition, letter.offset, letter.code) == (1, 1, "TRL731")
    assert letter.sha256 == hashlib.sha256(b"secret").hexdigest()
    assert "secret" not in letter.reason
    assert chunks.is_due
    assert (chunks.chunk.offsets, chunks.chunk.checkpoint) == ((0, 0), ArchiveCheckpoint(2, 2, (0, 0)))


@pytest.mark.parametrize(
    "message",
    [
        JudgedBatch(Mark(1, 0, 0), None, [event(0)], [OLD], []),
        JudgedBatch(Mark(1, 0, 0), None, [event(0)], [OLD], [1]),
        JudgedBatch(Mark(1, 0, 0), None, [event(0)], ["../../etc/passwd"], [0]),
        JudgedBatch(Mark(1, 0, 0), None, [], [], [], {"../x": {"shop": "pack: shop"}}),
        JudgedBatch(Mark(2, 0, 0), None, [], [], []),
        JudgedBatch(Mark(1, 0, 0), 1 << 63, [], [], []),
        JudgedBatch(Mark(1, 0, 0), None, [msgspec.structs.replace(event(0), time=1 << 63)], [OLD], [0]),
        JudgedBatch(Mark(1, 0, 0), None, [msgspec.structs.replace(event(0), occurrence=1 << 63)], [OLD], [0]),
        JudgedBatch(Mark(1, 0, 0), None, [msgspec.structs.replace(event(0), seq=0)], [OLD], [0]),
        JudgedBatch(Mark(1, 0, 0), None, [msgspec.structs.replace(event(0), seq=1 << 32)], [OLD], [0]),
    ],
    ids=[
        "fewer sets",
        "no such set",
        "no digest",
        "no digest of packs",
        "another partition's",
        "a watermark out of time",
        "a time out of time",
        "an occurrence out of time",
        "no place",
        "a place too far",
    ],
)
def test_what_contradicts_itself_is_a_dead_letter(message: JudgedBatch) -> None:
    """A message whose numbers lead nowhere or fit no file, or whose digests are none, is put aside whole."""
    assert buffer().take(Record(1, 0, BEGIN, encode(message))) is not None


def test_packs_that_come_into_force_take_no_room_from_events() -> None:
    """They have a message of their own, so that none is larger than it may be; all is gathered."""
    packs = {NEW: {"shop": f"pack: shop # {'x' * 900}\n"}}
    batch = JudgedBatch(Mark(1, 0, 0), BEGIN, [event(number) for number in range(20)], [OLD], [0] * 20, packs)
    messages = judged_messages(batch, 1_000)
    assert len(messages) > 2
    assert max(map(len, messages)) < 1_000 + 200
    chunks = buffer()
    for record in records(messages):
        assert chunks.take(record) is None
    chunk = chunks.chunk
    assert (chunk.events, chunk.activated, chunk.watermark) == (batch.events, packs, BEGIN)


def test_another_releases_message_is_not_skipped() -> None:
    """The archiver ends: a release that understands the message goes on with it."""
    with pytest.raises(StreamError) as caught:
        buffer().take(Record(1, 0, BEGIN, b"TL\x7f..."))
    assert caught.value.code == "TRL731"


def test_a_range_that_was_being_written_is_gathered_whole() -> None:
    """After a crash neither the pace nor idleness ends the first piece: only the messages of its range."""
    chunks = buffer(ArchiveCheckpoint(2, 2, (1, 0), pending=(2, 4)), ChunkLimits(rows=1))
    due: list[bool] = []
    for record in records([judged(number, [number]) for number in (2, 3, 4)], first=2):
        chunks.take(record)
        due.append(chunks.is_due and chunks.is_ready)
    assert due == [False, False, True]
    assert chunks.chunk.offsets == (2, 4)


def test_what_kafka_deleted_is_a_gap() -> None:
    """If the topic begins behind the end of the archive, the next range begins there."""
    checkpoint = ArchiveCheckpoint(5, 3, (4, 0), pending=(3, 8))
    assert resumed(checkpoint, 5) is checkpoint
    assert resumed(ArchiveCheckpoint(5, 3, (4, 0)), 9) == ArchiveCheckpoint(9, 9, (4, 0))
    # Of the range that was being written there may be files.
    assert resumed(checkpoint, 7) == ArchiveCheckpoint(9, 9, (4, 0))


def chunk_of(numbers: Sequence[int], offsets: tuple[int, int]) -> Chunk:
    """Some events, as a piece of partition 1."""
    events = [event(number) for number in numbers]
    rules = [OLD if number % 2 else NEW for number in numbers]
    return Chunk(1, offsets, offsets[1] + 1, (offsets[1], 0), BEGIN, events, rules)


def opened(root: Path) -> LiveArchive:
    """The archive as one process sees it."""
    return LiveArchive(root, SOURCE.name, SOURCE.sha256)


STEPS = ("begin", "write", "commit", "finish")


def archive(archive: LiveArchive, chunk: Chunk, steps: Sequence[str] = STEPS) -> None:
    """The first of the steps by which a piece gets into the archive."""
    with archive.lock():
        for step in steps:
            if step == "commit":
                archive.commit()
            else:
                getattr(archive, step)(chunk)


def rows(root: Path) -> pl.DataFrame:
    """All rows that the archive lists, as an audit finds them; nothing else is there."""
    population = Population()
    parts = discover(root, population)
    assert not population.rejects
    assert not population.skipped
    return pl.concat([pl.read_parquet(part.path, hive_partitioning=False) for part in parts])


def test_a_chunk_is_in_files_by_day_with_the_rules_of_each_event(tmp_path: Path) -> None:
    """The archive has every event with its rule set's digest; the manifest the range and the watermark."""
    archive(opened(tmp_path), chunk_of(range(48), (0, 9)))
    found = rows(tmp_path).sort("time")
    assert found["event_id"].to_list() == [event(number).event_id for number in range(48)]
    assert found["rules"].to_list() == [NEW, OLD] * 24
    manifest = read_manifest(tmp_path)
    assert [entry.offsets for entry in manifest.entries] == [(0, 9), (0, 9)]
    assert manifest.watermarks == {SOURCE: BEGIN}
    assert opened(tmp_path).checkpoint(1) == ArchiveCheckpoint(10, 10, (9, 0))
    assert opened(tmp_path).checkpoint(0) is None


@pytest.mark.parametrize("done", range(len(STEPS)))
def test_a_crash_at_any_step_leaves_which_range_to_write_again(tmp_path: Path, done: int) -> None:
    """The next archiver writes the same range; every event is there once, and there is no gap."""
    archive(opened(tmp_path), chunk_of([0, 1], (0, 1)))
    chunk = chunk_of(range(2, 48), (2, 7))
    archive(opened(tmp_path), chunk, STEPS[:done])
    after = opened(tmp_path)
    writing = (2, 7) if done else None
    assert after.checkpoint(1) == ArchiveCheckpoint(2, 2, (1, 0), writing)
    archive(after, chunk)
    archive(after, chunk_of(range(48, 60), (8, 11)))
    assert rows(tmp_path)["event_id"].sort().to_list() == [event(number).event_id for number in range(60)]
    assert gaps(read_manifest(tmp_path)) == 0


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_range_that_is_being_written_is_not_read(tmp_path: Path, done: int) -> None:
    """An audit beside the archiver finds what is whole, and nothing to complain of."""
    archive(opened(tmp_path), chunk_of([0, 1], (0, 1)))
    archive(opened(tmp_path), chunk_of(range(2, 48), (2, 7)), STEPS[:done])
    assert rows(tmp_path).height == 2
    assert read_manifest(tmp_path).watermarks == {SOURCE: BEGIN}


def test_what_is_entered_while_an_archive_is_listed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest counts, and it is read after the folders: no file that it lists is passed over."""
    archive(opened(tmp_path), chunk_of([0, 1], (0, 1)))

    def later(root: Path) -> Manifest:
        archive(opened(root), chunk_of([2], (2, 2)))
        return read_manifest(root)

    monkeypatch.setattr(read, "read_manifest", later)
    assert [part.name for part in discover(tmp_path, Population())] == sorted(
        entry.file for entry in read_manifest(tmp_path).entries
    )


def test_a_crash_between_two_days_is_made_good(tmp_path: Path) -> None:
    """Of two files the first was entered: the second is written again, the first stays as it is."""
    chunk = chunk_of(range(48), (0, 9))
    archive(opened(tmp_path), chunk, STEPS[:3])
    lines = (tmp_path / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "manifest.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    archive(opened(tmp_path), chunk)
    assert rows(tmp_path)["event_id"].n_unique() == rows(tmp_path).height == 48


def test_two_processes_see_what_the_other_entered(tmp_path: Path) -> None:
    """Each adds lines in its turn, and knows how far the other has come, as if it had begun just now."""
    first, second = opened(tmp_path), opened(tmp_path)
    archive(first, chunk_of([0, 1], (0, 1)))
    assert second.checkpoint(1) == ArchiveCheckpoint(2, 2, (1, 0))
    archive(second, chunk_of([2], (2, 2)))
    archive(first, replace(chunk_of([3], (0, 0)), partition=0))
    assert first.checkpoint(1) == second.checkpoint(1) == ArchiveCheckpoint(3, 3, (2, 0))
    assert len(read_manifest(tmp_path).entries) == 3


def test_a_full_disk_ends_the_writing_and_is_reported(tmp_path: Path) -> None:
    """The error names the file and what to do; the archive is as it was, and its range is written again."""
    archive(opened(tmp_path), chunk_of([0], (0, 0)))
    [whole] = tmp_path.glob("day=*/*.parquet")
    chunk = chunk_of([1], (1, 1))
    name = whole.name.replace(f"{0:012d}", f"{1:012d}")
    temporary = whole.with_name(f".writing-{name}")
    temporary.symlink_to("/dev/full")
    with pytest.raises(SourceError, match=f"{name}: TRL409 cannot be written"):
        archive(opened(tmp_path), chunk)
    assert not temporary.is_symlink()
    assert rows(tmp_path).height == 1
    archive(opened(tmp_path), chunk)
    assert rows(tmp_path).height == 2


def test_a_rule_set_is_stored_whole_and_once(tmp_path: Path) -> None:
    """It stands in `rules/` by its digest, and a reader of the archive does not take it for telemetry."""
    live_archive = opened(tmp_path)
    with live_archive.lock():
        live_archive.write_rules(OLD, {"shop": "pack: shop\n"})
        live_archive.write_rules(OLD, {"shop": "other"})
    assert (tmp_path / "rules" / f"{OLD}.json").read_text() == '{"packs":{"shop":"pack: shop\\n"}}\n'
    archive(live_archive, chunk_of([0], (0, 0)))
    assert rows(tmp_path).height == 1
