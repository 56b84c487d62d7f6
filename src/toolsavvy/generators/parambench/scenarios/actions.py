"""What listeners and rules do with requests, and which requests a rule means: as the API takes it and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, say
from toolsavvy.generators.parambench.scene import Scene

DOMAINS = ("example.com", "example.org", "example.net", "acme.test", "globex.test", "initech.test", "umbrella.test")
_BODIES = {
    "text/plain": (
        "plain text",
        ("Down for maintenance", "Not found here", "Come back later", "No such page", "Closed"),
    ),
    "text/html": ("HTML", ("<h1>Gone</h1>", "<p>Back at noon</p>", "<h1>Maintenance</h1>", "<p>Nothing here</p>")),
    "application/json": ("JSON", ('{"error":"gone"}', '{"status":"down"}', '{"ok":false}', '{"retry":true}')),
}
_HEADERS = ("X-Version", "X-Client", "X-Beta", "X-Tenant", "User-Agent", "X-Region", "Accept-Language")
_QUERY = ("version", "lang", "mode", "tenant", "preview", "format", "channel")
_WORDS = ("alpha", "beta", "gold", "silver", "one", "two", "north", "south", "en", "de", "fr", "v2", "v3", "mobile")
_TOPS = (
    "img",
    "static",
    "api",
    "login",
    "admin",
    "docs",
    "cart",
    "feed",
    "v1",
    "v2",
    "files",
    "help",
    "search",
    "jobs",
)


@dataclass(frozen=True)
class Action:
    """An action with the words for it, a wish such as "send everything to shop-web".

    Args:
        value: as the API takes it.
        words: the wish.
        conditions: arguments that are there because of the kind of action.
    """

    value: dict[str, Any]
    words: str
    conditions: int = 0


def host(scene: Scene) -> str:
    """A host name."""
    front = scene.rng.choice(("www", "shop", "api", "app", "blog", "login", "cdn", "static", "m", "docs", "news"))
    return f"{front}.{scene.rng.choice(DOMAINS)}"


def action(
    scene: Scene,
    groups: Mapping[str, str],
    kinds: tuple[str, ...] = ("forward", "split", "split", "answer", "redirect"),
) -> Action:
    """An action of one of some kinds.

    Args:
        scene: the story.
        groups: target groups, name -> arn; "split" needs two.
        kinds: that may be drawn.
    """
    kind = scene.rng.choice([k for k in kinds if k != "split" or len(groups) > 1])
    return {"forward": _forward, "split": _split, "answer": _answer, "redirect": _redirect}[kind](scene, groups)


def _forward(scene: Scene, groups: Mapping[str, str]) -> Action:
    name = scene.rng.choice(list(groups))
    words = say(scene, f"send them to the target group {name}", f"forward them to {name}", f"let {name} handle them")
    return Action({"Type": "forward", "TargetGroupArn": groups[name]}, words)


def _split(scene: Scene, groups: Mapping[str, str]) -> Action:
    """Two groups with weights, in a part of the cases with clients that stick to their group."""
    one, two = scene.rng.sample(list(groups), 2)
    weight = scene.rng.randrange(5, 96)
    config: dict[str, Any] = {
        "TargetGroups": [
            {"TargetGroupArn": groups[one], "Weight": weight},
            {"TargetGroupArn": groups[two], "Weight": 100 - weight},
        ]
    }
    words = say(
        scene,
        f"send {weight} % of them to {one} and the rest to {two}",
        f"give {one} a share of {weight} % and {two} what remains",
        f"split them {weight} to {100 - weight} between {one} and {two}",
    )
    if not chance(scene, 0.4):
        return Action({"Type": "forward", "ForwardConfig": config}, words)
    span = scene.rng.choice((60, 300, 600, 900, 1800, 3600, 7200, 86400))
    config["TargetGroupStickinessConfig"] = {"Enabled": True, "DurationSeconds": span}
    words += f", keeping each client with its group for {duration(scene, span)}"
    return Action({"Type": "forward", "ForwardConfig": config}, words, 1)


def _answer(scene: Scene, groups: Mapping[str, str]) -> Action:
    kind = scene.rng.choice(list(_BODIES))
    said, bodies = _BODIES[kind]
    body = scene.rng.choice(bodies)
    code = str(scene.rng.choice((200, 403, 404, 410, 429, 500, 503)))
    config = {"StatusCode": code, "ContentType": kind, "MessageBody": body}
    words = say(
        scene,
        f"answer them with status {code} and the {said} body '{body}'",
        f"reply with a {code} whose body is the {said} '{body}'",
    )
    return Action({"Type": "fixed-response", "FixedResponseConfig": config}, words, 1)


def _redirect(scene: Scene, groups: Mapping[str, str]) -> Action:
    config: dict[str, Any] = {"Protocol": "HTTPS", "Port": "443"}
    where = say(scene, "to HTTPS", "to the secure site")
    if chance(scene, 0.4):
        port = scene.rng.choice((8443, 9443, 4443, 10443))
        config["Port"] = str(port)
        where = f"to HTTPS on port {port}"
    if chance(scene, 0.4):
        config["Host"] = host(scene)
        where += f" at the host {config['Host']}"
    lasting = chance(scene, 0.5)
    config["StatusCode"] = "HTTP_301" if lasting else "HTTP_302"
    how = say(scene, "permanently", "for good") if lasting else say(scene, "temporarily", "for now")
    words = f"redirect them {how} {where}"
    return Action({"Type": "redirect", "RedirectConfig": config}, words, 2)


@dataclass(frozen=True)
class Match:
    """A condition of a rule with the words for it, what follows "requests": "for the host shop.example.com"."""

    value: dict[str, Any]
    words: str


def matches(scene: Scene, count: int) -> list[Match]:
    """Conditions of different kinds."""
    kinds = scene.rng.sample((_host_match, _path, _path, _header, _method, _query, _source), count + 1)
    return [kind(scene) for kind in dict.fromkeys(kinds)][:count]


def _host_match(scene: Scene) -> Match:
    hosts = list(dict.fromkeys(host(scene) for _ in range(scene.rng.choice((1, 1, 2)))))
    noun = "host" if len(hosts) == 1 else "hosts"
    return Match(
        {"Field": "host-header", "HostHeaderConfig": {"Values": hosts}}, f"for the {noun} {listed(hosts, 'or')}"
    )


def _path(scene: Scene) -> Match:
    tops = scene.rng.sample(_TOPS, scene.rng.choice((1, 1, 2)))
    if chance(scene, 0.6):
        values = [f"/{top}/*" for top in tops]
        words = f"to anything below {listed([f'/{top}/' for top in tops], 'or')}"
    else:
        values = [f"/{top}" for top in tops]
        words = f"to exactly {listed(values, 'or')}"
    return Match({"Field": "path-pattern", "PathPatternConfig": {"Values": values}}, words)


def _header(scene: Scene) -> Match:
    name, values = scene.rng.choice(_HEADERS), scene.rng.sample(_WORDS, scene.rng.choice((1, 2)))
    config = {"HttpHeaderName": name, "Values": values}
    return Match({"Field": "http-header", "HttpHeaderConfig": config}, f"whose header {name} is {listed(values, 'or')}")


def _method(scene: Scene) -> Match:
    values = scene.rng.sample(("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"), scene.rng.choice((1, 2)))
    words = f"by the method {values[0]}" if len(values) == 1 else f"by the methods {listed(values, 'or')}"
    return Match({"Field": "http-request-method", "HttpRequestMethodConfig": {"Values": values}}, words)


def _query(scene: Scene) -> Match:
    keys = scene.rng.sample(_QUERY, scene.rng.choice((1, 2)))
    values = [{"Key": key, "Value": scene.rng.choice(_WORDS)} for key in keys]
    said = [f"{value['Key']}={value['Value']}" for value in values]
    words = f"with {listed(said, 'or')} in the query string"
    return Match({"Field": "query-string", "QueryStringConfig": {"Values": values}}, words)


def _source(scene: Scene) -> Match:
    ranges = [f"10.{scene.rng.randrange(256)}.{scene.rng.randrange(256)}.0/24" for _ in range(scene.rng.choice((1, 2)))]
    return Match(
        {"Field": "source-ip", "SourceIpConfig": {"Values": ranges}}, f"from clients in {listed(ranges, 'or')}"
    )


UNORDERED = (
    "Conditions",
    "Conditions.*.HostHeaderConfig.Values",
    "Conditions.*.PathPatternConfig.Values",
    "Conditions.*.HttpHeaderConfig.Values",
    "Conditions.*.HttpRequestMethodConfig.Values",
    "Conditions.*.QueryStringConfig.Values",
    "Conditions.*.SourceIpConfig.Values",
    "Actions.*.ForwardConfig.TargetGroups",
    "DefaultActions.*.ForwardConfig.TargetGroups",
    "Tags",
)
"""Arrays of listeners and rules whose order means nothing."""
