#!/usr/bin/env python3
"""Writes events.tfevents in this folder by TensorBoard's own code, so that field numbers and framing are held against
a stranger's; see README.md for what is in it.

    python tfevents.py [FOLDER]

Needs tensorboard. Running it again gives the same file.
"""
import sys
from pathlib import Path

from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

Value = summary_pb2.Summary.Value


def summary(step, **value):
    return event_pb2.Event(wall_time=1.5, step=step, summary=summary_pb2.Summary(value=[Value(**value)]))


events = [
    event_pb2.Event(wall_time=1.5, file_version="brain.Event:2"),
    event_pb2.Event(
        wall_time=1.5, step=8, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    ),
    summary(8, tag="train/loss", simple_value=0.25),
    summary(9, tag="train/skipped", simple_value=0),
    summary(
        9,
        tag="weights/w",
        histo=histogram_pb2.HistogramProto(
            min=-1, max=2.5, num=4, sum=3, sum_squares=8.25, bucket_limit=[0, 2, 3], bucket=[1, 0, 3]
        ),
    ),
    summary(
        0,
        tag="settings",
        metadata=summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
        ),
        tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"--steps 5"]),
    ),
]
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
with open(folder / "events.tfevents", "wb") as stream:
    writer = RecordWriter(stream)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
    writer.flush()
