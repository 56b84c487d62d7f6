"""Stories that end in a call on hosted zones, their networks, name server sets and tags."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.balancers import tag
from toolsavvy.generators.parambench.scenarios.domains import HOME, check, domain, domains, reference, the, zone
from toolsavvy.generators.parambench.scenarios.words import chance, listed, number_word, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_COMMENTS = (
    "public site", "moved from the old provider", "do not edit by hand", "managed by the network team", "relaunch",
    "customer portal", "test names only", "owned by platform", "ticket 4711", "expires next year", "mail only",
    "replaces the legacy zone", "shared by all teams", "partner access", "branch offices",
)  # fmt: skip


def comment(scene: Scene) -> str:
    """A remark that a zone or a change carries."""
    if chance(scene, 0.4):
        return f"ticket {scene.rng.randrange(1000, 9999)}"
    return scene.rng.choice(_COMMENTS)


@program("route53:CreateHostedZone")
def create(scene: Scene) -> Goal:
    """A new zone: public, private in a network, or with a set of name servers that is there."""
    way = scene.rng.choice(("public", "private", "private", "servers"))
    name = domain(scene, way == "private")
    own = reference(scene)
    arguments: dict[str, Any] = {"Name": name, "CallerReference": own}
    config: dict[str, Any] = {}
    sentences = []
    if way == "private":
        nets = [b.network(scene, subnets=0) for _ in range(scene.rng.choice((1, 1, 2)))]
        net = scene.rng.choice(nets)
        arguments["VPC"] = {"VPCRegion": HOME, "VPCId": net.id}
        config["PrivateZone"] = True
        where = f"the VPC {net.name} in {HOME}"
        sentences.append(
            say(
                scene,
                f"Create a private hosted zone {name} that only {where} can see.",
                f"Within {where}, names under {name} should resolve through a private hosted zone; set it up.",
            )
        )
    else:
        sentences.append(say(scene, f"Create a public hosted zone {name}.", f"Set up a public hosted zone for {name}."))
    if way == "servers":
        made = scene.do("route53:CreateReusableDelegationSet", CallerReference=reference(scene))["DelegationSet"]
        arguments["DelegationSetId"] = made["Id"]
        sentences.append(
            say(
                scene,
                "It uses the reusable set of name servers from above.",
                "Its name servers are those of the set above.",
            )
        )
    if chance(scene, 0.5):
        config["Comment"] = comment(scene)
        sentences.append(say(scene, f"Comment: '{config['Comment']}'.", f"Add the remark '{config['Comment']}'."))
    if config:
        arguments["HostedZoneConfig"] = config
    sentences.append(say(scene, f"Use the reference {own}.", f"The request's reference is {own}."))
    return Goal(arguments, tuple(sentences), conditions=2 if way == "private" else 0)


def _several(scene: Scene, private: bool = False, least: int = 1) -> tuple[dict[str, str], str]:
    """Some zones, three at most, name -> id, and the name of one of them."""
    net = b.network(scene, subnets=0, shown=False) if private else None
    names = domains(scene, scene.rng.randint(least, 3), private)
    found = {name: zone(scene, name, network=net) for name in names}
    return found, scene.rng.choice(names)


@program("route53:DeleteHostedZone")
def delete(scene: Scene) -> Goal:
    """One of the zones goes."""
    found, name = _several(scene)
    who = the(scene, name, len(found) == 1, found[name])
    words = say(scene, f"Delete {who}.", f"We gave up {name}; remove its hosted zone.", f"Remove {who}, it is empty.")
    return Goal({"Id": found[name]}, (words,))


@program("route53:GetHostedZone")
def get(scene: Scene) -> Goal:
    """The details of one of the zones."""
    found, name = _several(scene)
    who = the(scene, name, len(found) == 1, found[name])
    words = say(scene, f"Show the details of {who}.", f"Which name servers does {who} have?", f"Look {who} up.")
    return Goal({"Id": found[name]}, (words,))


@program("route53:GetDNSSEC")
def signing(scene: Scene) -> Goal:
    """Is one of the zones signed?"""
    found, name = _several(scene)
    who = the(scene, name, len(found) == 1, found[name])
    words = say(scene, f"Is {who} signed?", f"Check whether {who} is signed.", f"What is the signing status of {who}?")
    return Goal({"HostedZoneId": found[name]}, (words,))


@program("route53:UpdateHostedZoneComment")
def remark(scene: Scene) -> Goal:
    """Another remark on one of the zones."""
    found, name = _several(scene)
    who = the(scene, name, len(found) == 1, found[name])
    new = comment(scene)
    words = say(
        scene,
        f"Change the comment on {who} to '{new}'.",
        f"From now on, the remark on {who} should read '{new}'.",
        f"Note '{new}' on {who}.",
    )
    return Goal({"Id": found[name], "Comment": new}, (words,))


@program("route53:AssociateVPCWithHostedZone")
def associate(scene: Scene) -> Goal:
    """A private zone becomes visible in a further network."""
    home = b.network(scene, subnets=0, shown=False)
    nets = [b.network(scene, subnets=0) for _ in range(scene.rng.choice((1, 2)))]
    net = scene.rng.choice(nets)
    name = domain(scene, True)
    own = zone(scene, name, network=home)
    who = the(scene, name, True)
    words = say(
        scene,
        f"Let the VPC {net.name} in {HOME} resolve names of {who} as well.",
        f"Make {who} visible in the VPC {net.name} ({HOME}) too.",
    )
    return _linked(scene, {"HostedZoneId": own, "VPC": {"VPCRegion": HOME, "VPCId": net.id}}, words)


def _linked(scene: Scene, arguments: dict[str, Any], words: str) -> Goal:
    sentences = [sentence(words)]
    if chance(scene, 0.5):
        arguments["Comment"] = comment(scene)
        sentences.append(
            say(scene, f"Comment: '{arguments['Comment']}'.", f"Note '{arguments['Comment']}' with the change.")
        )
    return Goal(arguments, tuple(sentences))


@program("route53:DisassociateVPCFromHostedZone")
def disassociate(scene: Scene) -> Goal:
    """A private zone is no longer visible in one of its networks."""
    nets = [b.network(scene, subnets=0) for _ in range(2)]
    name = domain(scene, True)
    own = zone(scene, name, network=nets[0])
    scene.do("route53:AssociateVPCWithHostedZone", HostedZoneId=own, VPC={"VPCRegion": HOME, "VPCId": nets[1].id})
    net = scene.rng.choice(nets)
    who = the(scene, name, True)
    words = say(
        scene,
        f"Stop resolving names of {who} in the VPC {net.name} ({HOME}).",
        f"The VPC {net.name} in {HOME} must not see {who} any more.",
    )
    return _linked(scene, {"HostedZoneId": own, "VPC": {"VPCRegion": HOME, "VPCId": net.id}}, words)


@program("route53:ListHostedZones")
def listing(scene: Scene) -> Goal:
    """Some of the zones: so many, of one sort, or with one set of name servers."""
    arguments: dict[str, Any] = {}
    way = scene.rng.choice(("all", "private", "set", "set"))
    if way == "set":
        arguments["DelegationSetId"], who = _sets(scene)
        words = say(scene, f"Which hosted zones use {who}?", f"List the hosted zones that share {who}.")
    elif way == "private":
        arguments["HostedZoneType"] = "PrivateHostedZone"
        words = say(scene, "List our private hosted zones only.", "Show the hosted zones that are private.")
    else:
        words = say(scene, "List our hosted zones.", "Which hosted zones do we have?")
    if way == "all" or chance(scene, 0.6):
        size = scene.rng.randrange(2, 100)
        arguments["MaxItems"] = str(size)
        words += say(scene, f" At most {size}, please.", f" Show up to {size} of them.")
    return Goal(arguments, (words,))


@program("route53:ListHostedZonesByName")
def by_name(scene: Scene) -> Goal:
    """Zones from a name on."""
    name = domain(scene)
    arguments: dict[str, Any] = {"DNSName": name}
    words = say(
        scene,
        f"Find our hosted zones in order of their names, beginning with {name}",
        f"Which hosted zones come from {name} on in alphabetical order?",
    )
    if chance(scene, 0.6):
        size = scene.rng.randrange(1, 20)
        arguments["MaxItems"] = str(size)
        limit = say(scene, f"At most {size} of them, please.", f"{number_word(size).capitalize()} are enough.")
        words = f"{sentence(words)} {limit}"
    return Goal(arguments, (sentence(words),))


@program("route53:ListHostedZonesByVPC")
def by_network(scene: Scene) -> Goal:
    """The private zones that a network sees."""
    nets = [b.network(scene, subnets=0) for _ in range(scene.rng.choice((1, 2, 3)))]
    net = scene.rng.choice(nets)
    zone(scene, domain(scene, True), network=net)
    arguments: dict[str, Any] = {"VPCId": net.id, "VPCRegion": HOME}
    words = say(
        scene,
        f"Which private zones does the VPC {net.name} in {HOME} see?",
        f"List the private hosted zones of the VPC {net.name} ({HOME}).",
    )
    if chance(scene, 0.4):
        size = scene.rng.randrange(2, 100)
        arguments["MaxItems"] = str(size)
        words += f" At most {size} of them, please."
    return Goal(arguments, (words,))


@program("route53:CreateReusableDelegationSet")
def create_set(scene: Scene) -> Goal:
    """A set of name servers for many zones: new ones, or those of a zone."""
    own = reference(scene)
    arguments: dict[str, Any] = {"CallerReference": own}
    if chance(scene, 0.7):
        found, name = _several(scene)
        arguments["HostedZoneId"] = found[name]
        who = the(scene, name, len(found) == 1, found[name])
        words = say(
            scene,
            f"Make the name servers of {who} reusable for other zones.",
            f"Turn what {who} has for name servers into a reusable set.",
        )
    else:
        words = say(
            scene,
            "We want the same four name servers for many zones: create a reusable set.",
            "Create a reusable set of name servers.",
        )
    return Goal(arguments, (words, say(scene, f"Use the reference {own}.", f"The request's reference is {own}.")))


def _sets(scene: Scene) -> tuple[str, str]:
    """Some reusable sets: the id of one, and what it is called."""
    made = {}
    for _ in range(scene.rng.choice((1, 2, 3))):
        own = reference(scene)
        made[own] = scene.do("route53:CreateReusableDelegationSet", CallerReference=own)["DelegationSet"]["Id"]
    own = scene.rng.choice(list(made))
    if chance(scene, b.STATED):
        return made[own], f"the reusable set with the id {made[own]}"
    alone = ["the reusable set created above"] if len(made) == 1 else []
    return made[own], say(scene, f"the reusable set with the reference {own}", f"the reusable set {own}", *alone)


@program("route53:DeleteReusableDelegationSet")
def delete_set(scene: Scene) -> Goal:
    """One of the reusable sets goes."""
    identifier, who = _sets(scene)
    return Goal({"Id": identifier}, (say(scene, f"Delete {who}.", f"Remove {who}, no zone uses it."),))


@program("route53:GetReusableDelegationSet")
def get_set(scene: Scene) -> Goal:
    """The name servers of one of the reusable sets."""
    identifier, who = _sets(scene)
    return Goal({"Id": identifier}, (say(scene, f"Which name servers are in {who}?", f"Look up {who}."),))


def _kept(scene: Scene, least: int = 1) -> tuple[str, list[str], list[str]]:
    """Zones or health checks that can be tagged: their type, bare ids, and how they are called."""
    if chance(scene, 0.7):
        found, _ = _several(scene, least=least)
        return "hostedzone", [one.rpartition("/")[2] for one in found.values()], [the(scene, name) for name in found]
    checks = {one["HealthCheckConfig"]["IPAddress"]: one["Id"] for one in (check(scene) for _ in range(2))}
    return "healthcheck", list(checks.values()), [f"the health check of {address}" for address in checks]


@program("route53:ChangeTagsForResource")
def tags(scene: Scene) -> Goal:
    """Tags of a zone or a health check come, go, or both."""
    kind, ids, names = _kept(scene)
    i = scene.rng.randrange(len(ids))
    old = dict(tag(scene) for _ in range(4))
    way = scene.rng.choice(("add", "add", "remove", "both"))
    arguments: dict[str, Any] = {"ResourceType": kind, "ResourceId": ids[i]}
    sentences = []
    if way != "remove":
        new = dict(tag(scene) for _ in range(scene.rng.choice((1, 2))))
        arguments["AddTags"] = [{"Key": key, "Value": value} for key, value in new.items()]
        said = listed([f"{key}={value}" for key, value in new.items()])
        sentences.append(say(scene, f"Tag {names[i]} with {said}.", f"Put {said} on {names[i]}."))
    if way != "add":
        keys = [key for key in old if key not in {one["Key"] for one in arguments.get("AddTags", ())}][:2] or ["legacy"]
        arguments["RemoveTagKeys"] = keys
        noun = "tag" if len(keys) == 1 else "tags"
        who = "it" if sentences else names[i]
        sentences.append(
            say(scene, f"Take the {noun} {listed(keys)} off {who}.", f"Remove the {noun} {listed(keys)} from {who}.")
        )
    return Goal(arguments, tuple(sentences), unordered=("AddTags", "RemoveTagKeys"))


@program("route53:ListTagsForResource")
def list_tags(scene: Scene) -> Goal:
    """How is a zone or a health check tagged?"""
    kind, ids, names = _kept(scene)
    i = scene.rng.randrange(len(ids))
    words = say(scene, f"Which tags are on {names[i]}?", f"Show the tags of {names[i]}.", f"How is {names[i]} tagged?")
    return Goal({"ResourceType": kind, "ResourceId": ids[i]}, (words,))


@program("route53:ListTagsForResources")
def list_all_tags(scene: Scene) -> Goal:
    """How are several of a kind tagged?"""
    kind, ids, names = _kept(scene, least=2)
    picks = scene.rng.sample(range(len(ids)), scene.rng.randint(2, len(ids)))
    said = listed([names[i] for i in picks])
    words = say(scene, f"Compare the tags of {said}.", f"In one request, show the tags of {said}.")
    arguments = {"ResourceType": kind, "ResourceIds": [ids[i] for i in picks]}
    return Goal(arguments, (words,), unordered=("ResourceIds",))
