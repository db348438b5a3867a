"""For the tests of other projects: the pytest plug-in that ``pip install rmqadmin`` brings (docs/testing.md)."""
