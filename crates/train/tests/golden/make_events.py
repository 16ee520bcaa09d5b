"""Writes events.bin with TensorBoard's own messages and record writer, and reads event files back with its readers.

    python make_events.py            writes events.bin beside this script
    python make_events.py FOLDER     prints what TensorBoard finds in a folder of event files

Needs the package tensorboard (2.21.0 was used). The test `events` writes the same events and compares the bytes.
"""

import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

FIRST_STEP = 300
SCALARS = [
    ("train/loss", 300, 4.5, 1.75e9 + 1.5),
    ("valid/loss", 300, 0.1, 1.75e9 + 2.5),
    ("ölçüm", 2**40, -1e-30, 1.75e9 + 3.25),
    ("train/loss", 301, float("inf"), 1.75e9 + 4.0),
    ("train/loss", 302, 0.0, 1.75e9 + 5.0),
]
TEXT = ("samples", 302, "**Günaydın** → good morning\n" * 12, 1.75e9 + 6.0)


def text_value(tag, text):
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING, tensor_shape=tensor_shape_pb2.TensorShapeProto(), string_val=[text.encode()]
    )
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    metadata = summary_pb2.SummaryMetadata(plugin_data=plugin, data_class=summary_pb2.DATA_CLASS_TENSOR)
    return summary_pb2.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)


def write(path):
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    events = [
        event_pb2.Event(wall_time=1.75e9, file_version="brain.Event:2"),
        event_pb2.Event(wall_time=1.75e9, step=FIRST_STEP, session_log=start),
    ]
    for tag, step, value, wall_time in SCALARS:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        events.append(event_pb2.Event(wall_time=wall_time, step=step, summary=summary))
    tag, step, text, wall_time = TEXT
    summary = summary_pb2.Summary(value=[text_value(tag, text)])
    events.append(event_pb2.Event(wall_time=wall_time, step=step, summary=summary))
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))


def show(folder):
    found = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    for tag in found.Tags()["scalars"]:
        for event in found.Scalars(tag):
            print("scalar", tag, event.step, event.value, event.wall_time)
    for tag in found.Tags()["tensors"]:
        plugin = found.SummaryMetadata(tag).plugin_data.plugin_name
        for event in found.Tensors(tag):
            # TensorBoard itself turns simple values into tensors of the plugin "scalars".
            proto = event.tensor_proto
            print(plugin, tag, event.step, proto.float_val or proto.tensor_content or proto.string_val, event.wall_time)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        write(pathlib.Path(__file__).with_name("events.bin"))
