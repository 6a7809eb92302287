"""A CycloneDX bill of materials that names the upstream releases in the wheel."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from .locks import Pin
from .patchfile import Patch

FILE_NAME = "sbom.cdx.json"


def render_sbom(name: str, version: str, pins: Sequence[Pin], patches: Sequence[Patch]) -> str:
    """The document as text. The same input gives the same bytes: no time, no random serial."""
    upstream = [
        {
            "type": "library",
            "bom-ref": f"{pin.dist}@{pin.version}",
            "name": pin.dist,
            "version": str(pin.version),
            "purl": f"pkg:pypi/{pin.dist}@{pin.version}",
            "hashes": [{"alg": "SHA-256", "content": pin.sha256}],
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "copyright": "Copyright 2023 LiveKit, Inc.",
            "modified": True,
        }
        for pin in sorted(pins)
    ]
    root = f"{name}@{version}"
    document: dict[str, object] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [{"name": f"{name}:patch", "value": p.id} for p in patches],
        },
        "components": upstream,
        "dependencies": [{"ref": root, "dependsOn": [c["bom-ref"] for c in upstream]}],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
