"""For the tests of other projects: the plug-in of pytest that ``pip install rmqadmin`` brings (docs/testing.md)."""
