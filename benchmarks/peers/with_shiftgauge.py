import pandas as pd

import shiftgauge as sg

source = sg.from_dataframe(pd.read_parquet("val.parquet"), labels="label")
month = pd.read_parquet("month.parquet").drop(columns="label")
print(sg.timeline(source, month, time="time", every="week"))
last = month[month["time"] >= "2026-03-23"].drop(columns="time")
sg.report(source, sg.from_dataframe(last)).save("shiftgauge.html")
