"""Stories that end in a change or a look at the records of a hosted zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.domains import (
    REGIONS,
    check,
    domain,
    domains,
    public_address,
    the,
    zone,
)
from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, say
from toolsavvy.generators.parambench.scenarios.zones import comment
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_LABELS = ("www", "api", "mail", "shop", "app", "cdn", "vpn", "docs", "status", "login", "ftp", "static", "blog", "db")
COUNTRIES = {
    "Germany": "DE", "France": "FR", "Japan": "JP", "Brazil": "BR", "Canada": "CA", "India": "IN", "Spain": "ES",
    "Italy": "IT", "Poland": "PL", "Kenya": "KE", "Norway": "NO", "Mexico": "MX", "Australia": "AU", "Austria": "AT",
}  # fmt: skip
"""Country -> its two letters (ISO 3166)."""
_SPANS = (30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
_TEXTS = ("v=spf1 -all", "v=spf1 mx -all", "v=spf1 a mx ~all", "v=DMARC1; p=none", "v=DMARC1; p=reject")
_UNORDERED = ("ChangeBatch.Changes.*.ResourceRecordSet.ResourceRecords",)

Record = tuple[dict[str, Any], str]
"""A record set without its name, and the words for it: "an A record for {} pointing to 192.0.2.7"."""


def _label(scene: Scene) -> str:
    return f"{scene.rng.choice(_LABELS)}{scene.rng.choice(('', '', '', '1', '2', '3'))}"


def _values(*values: str) -> list[dict[str, str]]:
    return [{"Value": value} for value in values]


def _lifetime(scene: Scene) -> tuple[int, str]:
    """How long resolvers keep a record."""
    span = scene.rng.choice(_SPANS)
    said = duration(scene, span)
    return span, say(scene, f"with a lifetime of {said}", f"to be cached for {said}", f"that resolvers keep for {said}")


def _address(scene: Scene, count: int = 0) -> Record:
    hosts = list(dict.fromkeys(public_address(scene) for _ in range(count or scene.rng.choice((1, 1, 2, 3)))))
    return {"Type": "A", "ResourceRecords": _values(*hosts)}, f"an A record for {{}} pointing to {listed(hosts)}"


def _address6(scene: Scene) -> Record:
    host = f"2001:db8:{scene.rng.randrange(1, 0xFFFF):x}::{scene.rng.randrange(1, 0xFFFF):x}"
    return {"Type": "AAAA", "ResourceRecords": _values(host)}, f"an AAAA record for {{}} pointing to {host}"


def _alias_name(scene: Scene) -> Record:
    host = f"{scene.rng.choice(_LABELS)}.{domain(scene)}"
    return {"Type": "CNAME", "ResourceRecords": _values(host)}, f"a CNAME record for {{}} pointing to {host}"


def _mail(scene: Scene) -> Record:
    home = domain(scene)
    ranks = sorted(scene.rng.sample((5, 10, 15, 20, 30, 40, 50), scene.rng.choice((1, 2))))
    servers = [(rank, f"mx{i + 1}.{home}") for i, rank in enumerate(ranks)]
    said = listed([f"{host} at preference {rank}" for rank, host in servers])
    values = _values(*(f"{rank} {host}" for rank, host in servers))
    return {"Type": "MX", "ResourceRecords": values}, f"an MX record for {{}} with {said}"


def _text(scene: Scene) -> Record:
    text = scene.rng.choice((*_TEXTS, f"verify={scene.rng.randrange(10**6, 10**7)}"))
    return {"Type": "TXT", "ResourceRecords": _values(f'"{text}"')}, f"a TXT record for {{}} that says '{text}'"


def _change(scene: Scene, action: str, name: str, record: Record) -> tuple[dict[str, Any], str]:
    """One change with a lifetime, and its sentence."""
    body, words = record
    span, kept = _lifetime(scene)
    values = {"Name": name, "Type": body["Type"], "TTL": span, "ResourceRecords": body["ResourceRecords"]}
    verb = say(scene, "Add", "Create") if action == "CREATE" else say(scene, "Add or overwrite", "Create or replace")
    return {"Action": action, "ResourceRecordSet": values}, f"{verb} {words.format(name)}, {kept}."


def _goal(scene: Scene, own: str, changes: list[dict[str, Any]], sentences: list[str], conditions: int = 0) -> Goal:
    """The goal with a remark in a part of the stories."""
    batch: dict[str, Any] = {}
    if chance(scene, 0.25):
        batch["Comment"] = comment(scene)
        sentences = [*sentences, say(scene, f"Remark: '{batch['Comment']}'.", f"Note '{batch['Comment']}' with it.")]
    arguments = {"HostedZoneId": own, "ChangeBatch": batch | {"Changes": changes}}
    return Goal(arguments, tuple(sentences), conditions, _UNORDERED)


def _opening(scene: Scene, name: str) -> str:
    return say(
        scene, f"Work on {the(scene, name)}.", f"This is about {the(scene, name)}.", f"Change {the(scene, name)}."
    )


@program("route53:ChangeResourceRecordSets")
def plain(scene: Scene) -> Goal:
    """One to three new records of usual types, by full names."""
    names = domains(scene, scene.rng.choice((1, 1, 2)))
    ids = {name: zone(scene, name) for name in names}
    home = scene.rng.choice(names)
    count = scene.rng.choice((1, 1, 2, 3))
    labels = list(dict.fromkeys(_label(scene) for _ in range(count)))
    kinds: tuple[Callable[[Scene], Record], ...] = (_address, _address, _address6, _alias_name, _text)
    made = [
        _change(
            scene, scene.rng.choice(("CREATE", "CREATE", "UPSERT")), f"{label}.{home}", scene.rng.choice(kinds)(scene)
        )
        for label in labels
    ]
    if chance(scene, 0.25):
        made.append(_change(scene, "CREATE", home, _mail(scene)))
    sentences = [words for _, words in made]
    if len(names) > 1:
        sentences.insert(0, _opening(scene, home))
    return _goal(scene, ids[home], [change for change, _ in made], sentences)


@program("route53:ChangeResourceRecordSets")
def balanced(scene: Scene) -> Goal:
    """A name becomes an alias of a load balancer, or of two by weight."""
    home = domain(scene)
    own = zone(scene, home)
    balancers = b.standing(scene, scene.rng.choice((1, 2)))
    name = f"{_label(scene)}.{home}"
    kind = scene.rng.choice(("A", "A", "AAAA"))
    article = f"an {kind}"
    weighted = len(balancers) == 2 and chance(scene, 0.5)
    changes, sentences = [], []
    for balancer in balancers if weighted else balancers[:1]:
        action = scene.rng.choice(("CREATE", "UPSERT"))
        verb = "Create" if action == "CREATE" else "Create or replace"
        counts = chance(scene, 0.5)
        record: dict[str, Any] = {"Name": name, "Type": kind}
        health = "follow" if counts else "ignore"
        words = f"{verb} {article} record for {name} as an alias of {balancer['LoadBalancerName']}; {health} its health"
        if weighted:
            record |= {
                "SetIdentifier": balancer["LoadBalancerName"].removesuffix("-lb"),
                "Weight": scene.rng.randrange(1, 256),
            }
            words += f"; this one is known as {record['SetIdentifier']} and has weight {record['Weight']}"
        record["AliasTarget"] = {
            "HostedZoneId": balancer["CanonicalHostedZoneId"],
            "DNSName": balancer["DNSName"],
            "EvaluateTargetHealth": counts,
        }
        changes.append({"Action": action, "ResourceRecordSet": record})
        sentences.append(f"{words}.")
    return _goal(scene, own, changes, sentences, conditions=2 if weighted else 1)


@program("route53:ChangeResourceRecordSets")
def routed(scene: Scene) -> Goal:
    """Answers that depend: by weight, region, country, or on what is healthy."""
    home = domain(scene)
    own = zone(scene, home)
    name = f"{_label(scene)}.{home}"
    way = scene.rng.choice((_weights, _regions, _countries, _failover))
    parts = way(scene)
    changes, sentences = [], []
    for more, words in parts:
        change, sentence = _change(scene, "CREATE", name, _address(scene, 1))
        change["ResourceRecordSet"] = {"Name": name, "Type": "A", **more, **change["ResourceRecordSet"]}
        changes.append(change)
        sentences.append(f"{sentence[:-1]}; {words}.")
    return _goal(scene, own, changes, sentences, conditions=sum(len(more) for more, _ in parts))


Parts = list[tuple[dict[str, Any], str]]


def _marks(scene: Scene, count: int) -> list[str]:
    return scene.rng.sample(("blue", "green", "main", "spare", "alpha", "beta", "old", "new", "north", "south"), count)


def _weights(scene: Scene) -> Parts:
    marks = _marks(scene, scene.rng.choice((1, 2, 2)))
    weights = [scene.rng.randrange(1, 256) for _ in marks]
    return [
        ({"SetIdentifier": mark, "Weight": weight}, f"this one is known as {mark} and has weight {weight}")
        for mark, weight in zip(marks, weights, strict=True)
    ]


def _regions(scene: Scene) -> Parts:
    count = scene.rng.choice((1, 2, 2))
    pairs = zip(_marks(scene, count), scene.rng.sample(REGIONS, count), strict=True)
    return [
        (
            {"SetIdentifier": mark, "Region": region},
            f"this one is known as {mark} and serves whoever is closest to {region}",
        )
        for mark, region in pairs
    ]


def _countries(scene: Scene) -> Parts:
    count = scene.rng.choice((1, 2, 2))
    countries = scene.rng.sample(list(COUNTRIES), count)
    parts: Parts = [
        (
            {"SetIdentifier": mark, "GeoLocation": {"CountryCode": COUNTRIES[country]}},
            f"this one is known as {mark} and serves visitors from {country}",
        )
        for mark, country in zip(_marks(scene, count), countries, strict=True)
    ]
    if chance(scene, 0.3):
        words = "this one is known as rest and serves visitors from everywhere else"
        parts.append(({"SetIdentifier": "rest", "GeoLocation": {"CountryCode": "*"}}, words))
    return parts


def _failover(scene: Scene) -> Parts:
    """Primary and secondary, the primary watched by a health check of the context."""
    found = [check(scene) for _ in range(scene.rng.choice((1, 2)))]
    chosen = scene.rng.choice(found)
    one, two = _marks(scene, 2)
    watched = f"the health check of {chosen['HealthCheckConfig']['IPAddress']}"
    parts: Parts = [
        (
            {"SetIdentifier": one, "Failover": "PRIMARY", "HealthCheckId": chosen["Id"]},
            f"this one is known as {one}, is used first and is watched by {watched}",
        )
    ]
    if chance(scene, 0.7):
        words = f"this one is known as {two} and steps in when the other fails"
        parts.append(({"SetIdentifier": two, "Failover": "SECONDARY"}, words))
    return parts


def _earlier(scene: Scene) -> tuple[str, str, list[dict[str, Any]]]:
    """A zone with some records that were made upstream: its name, id and record sets."""
    home = domain(scene)
    own = zone(scene, home)
    labels = list(dict.fromkeys(_label(scene) for _ in range(3)))
    changes = [
        _change(scene, "CREATE", f"{label}.{home}", scene.rng.choice((_address, _address6, _alias_name))(scene))[0]
        for label in labels
    ]
    scene.do("route53:ChangeResourceRecordSets", HostedZoneId=own, ChangeBatch={"Changes": changes})
    return home, own, [change["ResourceRecordSet"] for change in changes]


@program("route53:ChangeResourceRecordSets")
def removed(scene: Scene) -> Goal:
    """Records that were made before go again; everything about them has to be said once more."""
    _, own, records = _earlier(scene)
    picks = scene.rng.sample(records, scene.rng.choice((1, 1, min(2, len(records)))))
    said = listed([f"{record['Name']}" for record in picks])
    noun = "record" if len(picks) == 1 else "records"
    words = say(scene, f"Delete the {noun} {said} from above.", f"The {noun} {said} created above must go.")
    return _goal(scene, own, [{"Action": "DELETE", "ResourceRecordSet": record} for record in picks], [words])


@program("route53:ChangeResourceRecordSets")
def adjusted(scene: Scene) -> Goal:
    """A record that was made before gets another lifetime, another name, or both stay and its values change."""
    home, own, records = _earlier(scene)
    record = scene.rng.choice(records)
    way = scene.rng.choice(("lifetime", "rename", "copy"))
    name = record["Name"]
    if way == "lifetime":
        span = scene.rng.choice([one for one in _SPANS if one != record["TTL"]])
        new = {**record, "TTL": span}
        words = say(
            scene,
            f"Overwrite the record {name} from above: same content, but a lifetime of {duration(scene, span)}.",
            f"Keep the record {name} from above as it is, but overwrite its lifetime: {duration(scene, span)}.",
        )
        return _goal(scene, own, [{"Action": "UPSERT", "ResourceRecordSet": new}], [words], 1)
    taken = {one["Name"] for one in records}
    free = [f"{label}.{home}" for label in _LABELS if f"{label}.{home}" not in taken]
    new = {**record, "Name": scene.rng.choice(free)}
    changes = [{"Action": "CREATE", "ResourceRecordSet": new}]
    if way == "rename":
        changes.insert(0, {"Action": "DELETE", "ResourceRecordSet": record})
        words = say(
            scene,
            f"Rename the record {name} from above to {new['Name']}: delete the old one, then create the new one.",
            f"The record {name} from above should be called {new['Name']} instead: delete it, then create that.",
        )
    else:
        words = say(
            scene,
            f"Create a record {new['Name']} just like {name} above.",
            f"Create {new['Name']} with the same type, content and lifetime as {name} above.",
        )
    return _goal(scene, own, changes, [words], 1)


@program("route53:ListResourceRecordSets")
def listing(scene: Scene) -> Goal:
    """Records of one of the zones: all, from a name on, of a type on, or so many."""
    names = domains(scene, scene.rng.choice((1, 2)))
    ids = {name: zone(scene, name) for name in names}
    home = scene.rng.choice(names)
    who = the(scene, home, len(names) == 1)
    arguments: dict[str, Any] = {"HostedZoneId": ids[home]}
    sentences = [say(scene, f"List the records of {who}.", f"Which records are in {who}?")]
    if chance(scene, 0.6):
        arguments["StartRecordName"] = f"{_label(scene)}.{home}"
        text = say(
            scene,
            f"Begin with the name {arguments['StartRecordName']}",
            f"Start at the name {arguments['StartRecordName']}",
        )
        if chance(scene, 0.6):
            arguments["StartRecordType"] = scene.rng.choice(("A", "AAAA", "CNAME", "MX", "TXT", "NS", "CAA", "SRV"))
            text += f" and the type {arguments['StartRecordType']}"
        sentences.append(f"{text}.")
    if chance(scene, 0.5):
        size = scene.rng.randrange(2, 300)
        arguments["MaxItems"] = str(size)
        sentences.append(say(scene, f"At most {size}, please.", f"Show up to {size} of them."))
    return Goal(arguments, tuple(sentences), conditions=int("StartRecordType" in arguments))
