"""Classify signals and explain two decisions, for `make demo`: python tools/demo.py FOLDER."""

import sys
import time

from rescntk import plots
from rescntk.datasets import load_labelled
from rescntk.learn import ResidualKernelClassifier

X, y = load_labelled("GunPoint")
X_new, y_new = load_labelled("GunPoint", "test")
print(f"\nGunPoint: {len(X)} labelled signals of a hand: 1 draws a gun, 2 points with a finger")

start = time.perf_counter()
model = ResidualKernelClassifier(views="fast").fit(X, y)
labels, sure = model.predict(X_new), model.predict_proba(X_new).max(axis=1)
seconds = time.perf_counter() - start
print(f"{(labels == y_new).mean():.1%} of {len(X_new)} new signals are right, {seconds:.1f} s")

print("signal  label  predicted  probability")
for row in zip(range(5), y_new, labels, sure, strict=False):
    print("{:6}  {:>5}  {:>9}  {:11.2f}".format(*row))
path = f"{sys.argv[1]}/explained.png"
plots.contributions(model, X_new[:2])[0].figure.savefig(path)
print(f"written: {path}, two signals coloured by what each time point adds to the decision")
