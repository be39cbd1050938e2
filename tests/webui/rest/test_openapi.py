"""The OpenAPI document is valid, by the specification's own schema."""

from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.webui.rest.test_conventions import records_in
from webui.rest.routes import ROUTES, document


def test_the_document_is_valid() -> None:
    errors = OpenAPIV31SpecValidator(document(ROUTES, "1")).iter_errors()
    assert [f"{list(error.absolute_path)}: {error.message[:500]}" for error in errors] == []


def test_every_operation_has_a_tag_and_every_tag_is_described() -> None:
    described = document(ROUTES, "1")
    known = {tag["name"] for tag in described["tags"] if tag["description"]}
    for path, methods in described["paths"].items():
        for operation in methods.values():
            (tag,) = operation["tags"]
            assert tag in known, path


def test_every_response_is_described_and_what_is_created_has_a_location() -> None:
    for path, methods in document(ROUTES, "1")["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                assert response["description"], (path, status)
                assert ("content" in response) is (status not in ("204", "304")), (path, status)
                assert ("Location" in response.get("headers", {})) is (status == "201"), (path, status)


def test_a_title_names_one_schema() -> None:
    """Schemas with a title are components, so two of one title would replace each other."""
    found: dict[str, object] = {}
    for route in ROUTES:
        for schema in (route.body, *(each.schema for each in route.responses.values())):
            for record in records_in(schema):
                if record.title:
                    assert found.setdefault(record.title, record.describe()) == record.describe()
    components = document(ROUTES, "1")["components"]["schemas"]
    assert components.keys() == {*found, "Problem"} and len(components) > 40
    assert {"ClientQuota", "ClientQuotaPage", "Connection", "ConnectionPage", "Token"} <= components.keys()


def test_bodies_have_examples() -> None:
    paths = document(ROUTES, "1")["paths"]
    body = paths["/api/v1/client-quotas/{id}"]["put"]["requestBody"]
    assert body["content"]["application/json"]["example"]["limits"] == {
        "producer_byte_rate": 1000000,
        "consumer_byte_rate": 2000000,
    }
