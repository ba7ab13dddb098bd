"""What the tests of the explorer share: reading a page again, and a world that means ill."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re

import numpy as np

import cmcts
from cmcts.explorer.columns import KINDS

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u2028--><!--"


def data_of(page):
    """The JSON of a page, as its script reads it."""
    return json.loads(re.search(rb'id="data">(.*?)</script>', page, re.DOTALL)[1])


def unpacked(packed):
    """The arrays that `pack` packed, as the page's script reads them."""
    content, offset, arrays = gzip.decompress(base64.b64decode(packed["data"])), 0, {}
    for name, kind, length in packed["columns"]:
        arrays[name] = np.frombuffer(content, KINDS[kind], length, offset)
        offset += arrays[name].nbytes
    assert offset == len(content)
    return arrays


def hostile_decision():
    """A decision whose action and cost names are markup, one of them refused, with its tree."""
    task = cmcts.make("safe-gridworld")
    names = (HOSTILE, *task.model.action_names[1:])
    model = dataclasses.replace(task.model, action_names=names, cost_names=(HOSTILE,))
    weights, biases = np.zeros((1, model.feature_count, model.action_count)), np.zeros((1, model.action_count))
    biases[0, 0] = 0.75
    planner = cmcts.CMCTS(model, cmcts.ensemble([weights], [biases]), task.search, task.pruning)
    return planner.plan([0.0, 0.0], budget=0.5, iterations=64, keep_tree=True)
