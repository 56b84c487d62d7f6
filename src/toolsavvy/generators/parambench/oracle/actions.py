"""How the oracle reads what is to happen with requests, and which requests are meant."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight

_TYPES = {"plain text": "text/plain", "HTML": "text/html", "JSON": "application/json"}
_HOST = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"


def action(sight: Sight, text: str) -> dict[str, Any]:
    """The action that a text wishes for."""
    if m := re.search(r"(?:status|with a) (\d{3})\b.*?(plain text|HTML|JSON) (?:body )?'([^']*)'", text):
        config = {"StatusCode": m[1], "ContentType": _TYPES[m[2]], "MessageBody": m[3]}
        return {"Type": "fixed-response", "FixedResponseConfig": config}
    if m := re.search(r"redirect them (permanently|for good|temporarily|for now) (.*)", text):
        return {"Type": "redirect", "RedirectConfig": _redirect(m[1], m[2])}
    groups = k.mentioned(text, k.groups(sight))
    if share := k.first(text, r"(\d+) %", r"split them (\d+) to"):
        return {"Type": "forward", "ForwardConfig": _shares(groups, int(share), text)}
    return {"Type": "forward", "TargetGroupArn": groups[0]}


def _redirect(lasting: str, where: str) -> dict[str, str]:
    config = {"Protocol": "HTTPS", "Port": k.first(where, r"port (\d+)") or "443"}
    if host := k.first(where, rf"host ({_HOST})"):
        config["Host"] = host
    return config | {"StatusCode": "HTTP_301" if lasting in ("permanently", "for good") else "HTTP_302"}


def _shares(groups: list[str], share: int, text: str) -> dict[str, Any]:
    weights = (share, 100 - share)
    config: dict[str, Any] = {
        "TargetGroups": [{"TargetGroupArn": arn, "Weight": w} for arn, w in zip(groups, weights, strict=True)]
    }
    if span := k.first(text, r"with its group for (\S+ \w+)"):
        config["TargetGroupStickinessConfig"] = {"Enabled": True, "DurationSeconds": seconds(span)}
    return config


def _row(text: str) -> list[str]:
    return [part for part in re.split(r", | or ", text) if part]


def conditions(text: str) -> list[dict[str, Any]]:
    """Which requests a text means, one condition a kind."""
    found: list[dict[str, Any]] = []
    if m := re.search(rf"for the hosts? ({_HOST}(?:(?:, | or ){_HOST})*)", text):
        found.append({"Field": "host-header", "HostHeaderConfig": {"Values": _row(m[1])}})
    path = r"(/[\w/-]+(?:(?:, | or )/[\w/-]+)*)"
    if m := re.search(rf"(below|exactly) {path}", text):
        values = [f"{one}*" if m[1] == "below" else one for one in _row(m[2])]
        found.append({"Field": "path-pattern", "PathPatternConfig": {"Values": values}})
    if m := re.search(r"whose header ([\w-]+) is (\w+(?:(?:, | or )\w+)*)", text):
        config = {"HttpHeaderName": m[1], "Values": _row(m[2])}
        found.append({"Field": "http-header", "HttpHeaderConfig": config})
    if m := re.search(r"by the methods? ([A-Z]+(?:(?:, | or )[A-Z]+)*)", text):
        found.append({"Field": "http-request-method", "HttpRequestMethodConfig": {"Values": _row(m[1])}})
    if says(text, "in the query string"):
        found.append({"Field": "query-string", "QueryStringConfig": {"Values": k.tags(text)}})
    if m := re.search(r"from clients in ([\d./]+\d(?:(?:, | or )[\d./]+\d)*)", text):
        found.append({"Field": "source-ip", "SourceIpConfig": {"Values": _row(m[1])}})
    return found


def listener(sight: Sight, text: str | None = None) -> dict[str, Any]:
    """The listener that a text means: by port and load balancer, else the latest.

    Raises:
        LookupError: there is none at all.
    """
    text = sight.instruction if text is None else text
    known = [dict(o) for _, _, o in sight.objects if o.get("ListenerArn") and o.get("Port")]
    if stated := k.first(text, r"arn:aws:\S+:listener/[\w/-]+"):
        return next(one for one in known if one["ListenerArn"] == stated)
    balancers = k.mentioned(text, k.balancers(sight))
    near = [one for one in known if not balancers or one["LoadBalancerArn"] in balancers] or known
    port = k.first(text, r"listener on port (\d+)")
    return [one for one in near if port is None or one["Port"] == int(port)][-1]
