"""The location of the tables: a folder, or a bucket of an object store with S3's interface.

Used by webui.insights.worker and webui.insights.replay, in their processes, and by webui.insights.reader for
what those need from the environment. A location is text, because Path would make one slash of two.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SCHEMES: Final = ("s3a://", "s3://")
"""Hadoop's name for S3, which the pipeline uses, and everybody else's."""

VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "SSL_CERT_FILE",
    "HOME",
)
"""What deltalake reads from the environment for an object store; nothing else of it is passed on."""

LIMITS: Final = {"connect_timeout": "5s", "timeout": "30s", "max_retries": "2", "retry_timeout": "20s"}
"""A refusal is shown within the time of a question, not after ten tries."""


def is_remote(warehouse: str) -> bool:
    return warehouse.startswith(SCHEMES)


def of_table(warehouse: str, table: str) -> str:
    """Return the table's folder, or its URL as deltalake knows it."""
    for scheme in SCHEMES:
        if warehouse.startswith(scheme):
            return f"s3://{warehouse.removeprefix(scheme).rstrip('/')}/{table}"
    return str(Path(warehouse) / table)


def storage_options(warehouse: str, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return deltalake's options for the location, beside what it reads from the environment itself."""
    if not is_remote(warehouse):
        return None
    is_plain = environment.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return LIMITS | ({"allow_http": "true"} if is_plain else {})


def inherited(warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process needs to read the warehouse."""
    if not is_remote(warehouse):
        return {}
    return {name: environment[name] for name in VARIABLES if name in environment}
