import pandas as pd
from evidently import DataDefinition, Dataset, Report
from evidently.presets import DataDriftPreset

reference = pd.read_parquet("val.parquet").drop(columns="label")
month = pd.read_parquet("month.parquet").drop(columns="label")
definition = DataDefinition(numerical_columns=list(reference.columns))
week = month[month["time"] >= month["time"].max() - pd.Timedelta(days=6.5)].drop(columns="time")
result = Report([DataDriftPreset()]).run(
    Dataset.from_pandas(week, data_definition=definition),
    Dataset.from_pandas(reference, data_definition=definition),
)
result.save_html("evidently.html")
print(result.dict()["metrics"][0])
