"""Headers of requests about users and ACL."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header


class UserHeader(Header, kw_only=True):
    """3001 AUTH_CREATE_USER, 3002 AUTH_UPDATE_USER, 3003 AUTH_DELETE_USER, 3004 AUTH_GET_USER. ``access_key`` is the
    requesting user, for the broker; a client's signature adds it."""

    username: str = ""
    access_key: str | None = msgspec.field(default=None, name="AccessKey")


class ListUsersHeader(Header, kw_only=True):
    """3005 AUTH_LIST_USER. ``filter``: part of the name."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True):
    """3006 AUTH_CREATE_ACL, 3007 AUTH_UPDATE_ACL, 3009 AUTH_GET_ACL. ``subject``: ``User:name``."""

    subject: str = ""


class DeleteAclHeader(Header, kw_only=True):
    """3008 AUTH_DELETE_ACL. Without ``resource``, all of the subject's policies."""

    subject: str = ""
    policy_type: str | None = None
    resource: str | None = None


class ListAclsHeader(Header, kw_only=True):
    """3010 AUTH_LIST_ACL. The filters are parts of the subject and of the resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
