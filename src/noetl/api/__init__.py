"""Request and response bodies of the HTTP API. The server and the client use the same structs.

A response may gain fields: a client ignores the fields that it does not know. A request body with an unknown
field is rejected, so that a misspelled name does not go unnoticed.
"""
