"""The image: one layer with the program and nothing else, as an OCI layout in a tar.

The same tar has a `manifest.json`, which `docker load` reads where it does not know the layout. Nobody is root in it,
and nothing is written to its file system.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packing.archives import Entry, gzipped, sha256, tar
from packing.tree import Machine, Tree

# As the Helm chart has it (podSecurityContext).
USER = "65532:65532"
PROGRAM = "usr/bin/weir"
OCI = "application/vnd.oci.image"


def image(tree: Tree, machine: Machine, weir: Path, out: Path) -> Path:
    """Writes the archive into a folder."""
    layer = tar({PROGRAM: Entry(weir.read_bytes(), 0o755)}, tree.epoch)
    packed = gzipped(layer)
    created = datetime.fromtimestamp(tree.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "weir",
        "org.opencontainers.image.description": "A memcached proxy, and the load to measure it with",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": tree.version,
        "org.opencontainers.image.revision": tree.commit,
        "org.opencontainers.image.created": created,
    }
    config = _json(
        {
            "architecture": machine.name,
            "os": "linux",
            "created": created,
            "config": {
                "User": USER,
                "Entrypoint": [f"/{PROGRAM}"],
                "Env": ["PATH=/usr/bin"],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
            "history": [{"created": created, "created_by": "make packages"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _described(f"{OCI}.config.v1+json", config),
            "layers": [_described(f"{OCI}.layer.v1.tar+gzip", packed)],
            "annotations": labels,
        }
    )
    index = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.index.v1+json",
        "manifests": [
            _described(f"{OCI}.manifest.v1+json", manifest)
            | {
                "platform": {"architecture": machine.name, "os": "linux"},
                "annotations": {"org.opencontainers.image.ref.name": tree.version},
            }
        ],
    }
    docker = [{"Config": _blob(config), "RepoTags": [f"weir:{tree.version}"], "Layers": [_blob(packed)]}]
    files = {
        "oci-layout": Entry(_json({"imageLayoutVersion": "1.0.0"})),
        "index.json": Entry(_json(index)),
        "manifest.json": Entry(_json(docker)),
        **{_blob(content): Entry(content) for content in (config, manifest, packed)},
    }
    made = out / f"weir-{tree.version}-linux-{machine.name}.oci.tar"
    made.write_bytes(tar(files, tree.epoch))
    return made


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{sha256(content)}", "size": len(content)}


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{sha256(content)}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
