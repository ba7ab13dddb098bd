"""What docs/cluster.md tells people to copy is well-formed: the manifest, the study, and the options it names."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from cmcts.sweep.table import Sweep
from cmcts.version import __version__

PAGE = (Path(__file__).parent.parent / "docs" / "cluster.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_manifest_is_a_ray_cluster_whose_nodes_are_alike():
    cluster, claim = yaml.safe_load_all(block("yaml"))
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    head, (workers,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert head["rayStartParams"] == {"num-cpus": "0"}  # KubeRay takes text here, and no numbers
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    containers = [group["template"]["spec"]["containers"][0] for group in (head, workers)]
    assert {container["image"] for container in containers} == {f"registry.example.com/cmcts:{__version__}"}
    for container in containers:
        assert container["resources"]["requests"] == container["resources"]["limits"]
    volume = head["template"]["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volume["name"] == containers[0]["volumeMounts"][0]["name"]
    assert f"FROM rayproject/ray:{cluster['spec']['rayVersion']}-py311" in PAGE


def test_the_study_can_be_read(tmp_path):
    (tmp_path / "study.toml").write_text(block("toml"))
    sweep = Sweep.read(tmp_path / "study.toml")
    # Two tasks, ten seeds and three numbers of iterations; for C-MCTS two trainings as well.
    assert len(sweep.rows()) == 2 * 10 * 3 * (2 + 1)
