import pandas as pd

import shiftgauge as sg

source = sg.from_dataframe(pd.read_parquet("val.parquet"), labels="label").source()
month = pd.read_parquet("month.parquet").drop(columns="label")
for week, rows in month.groupby(pd.Grouper(key="time", freq="W")):
    target = sg.from_dataframe(rows.drop(columns="time")).target()
    answer = sg.estimate(source, target)
    print(week.date(), f"{answer.error:.1%} [{answer.range.low:.1%}, {answer.range.high:.1%}]")
sg.report(source, target).save("shiftgauge.html")
