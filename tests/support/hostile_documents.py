"""A document that declares columns, and may be hostile: it is read, or refused with a remedy."""

from cipherdag import errors
from cipherdag.sites.drafts.together import read_declarations
from cipherdag.sites.table.schema import Schema


def schema_or_refusal(path):
    """The schema that the document declares, which reads back; None where it is refused."""
    try:
        declared = read_declarations([path])
    except errors.UnreadableDataError as error:
        assert error.file == str(path)  # noqa: PT017
        assert error.remedy  # noqa: PT017
        return None
    try:
        schema = declared.schema()
    except errors.SchemaError as error:
        assert "no declared column" in error.message  # noqa: PT017
        return None
    assert Schema.loads(schema.dumps()) == schema
    return schema
