import nannyml as nml
import pandas as pd

reference = pd.read_parquet("val.parquet")
analysis = pd.read_parquet("month.parquet")
probs = {str(d): f"prob_{d}" for d in range(10)}
for frame in (reference, analysis):
    frame["label"] = frame["label"].astype(str)
    frame["pred"] = frame[list(probs.values())].idxmax(axis=1).str[5:]
cbpe = nml.CBPE(
    problem_type="classification_multiclass",
    metrics=["accuracy"],
    y_pred_proba=probs,
    y_pred="pred",
    y_true="label",
    chunk_size=350,
).fit(reference)
result = cbpe.estimate(analysis.drop(columns="label"))
print(result.to_df())
result.plot().write_html("nannyml.html")
