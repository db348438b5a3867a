"""Frames and both header codecs: the appendix's vectors, real frames, and every way to damage one."""

ROUTE_REQUEST = bytes.fromhex("000000810000007b") + (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":513}hi'
)
