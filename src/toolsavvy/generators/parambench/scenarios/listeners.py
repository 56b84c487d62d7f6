"""Stories that end in a call on listeners: made, changed, certified, looked up, removed."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.actions import UNORDERED, action
from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_POLICIES = (
    "ELBSecurityPolicy-TLS13-1-2-2021-06",
    "ELBSecurityPolicy-TLS13-1-3-2021-06",
    "ELBSecurityPolicy-FS-1-2-Res-2020-10",
    "ELBSecurityPolicy-TLS-1-2-2017-01",
    "ELBSecurityPolicy-FS-1-1-2019-08",
    "ELBSecurityPolicy-TLS-1-2-Ext-2018-06",
)


def certificate(scene: Scene) -> str:
    """Arn of a server certificate, which requests state as it is."""
    name = f"{b.application(scene)}-{scene.rng.randrange(2024, 2031)}"
    return f"arn:aws:iam::123456789012:server-certificate/{name}"


def place(scene: Scene, kind: str = "application", ports: int = 1) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """A load balancer with two target groups and listeners on some ports: its description, groups, listeners' arns."""
    home = b.backstage(scene, subnets=2)
    protocol = "HTTP" if kind == "application" else "TCP"
    balancer = b.standing(scene, 1, home=home, kind=kind)[0]
    found = b.groups(scene, 2, home=home, protocol=protocol)
    numbers = scene.rng.sample((80, 8080, 8000, 8888, 9000, 3000, 5000, 8081), ports)
    first = next(iter(found.values()))
    arns = [b.listener(scene, balancer["LoadBalancerArn"], first, protocol=protocol, port=port) for port in numbers]
    return balancer, found, arns


def port_of(scene: Scene, arn: str) -> int:
    """Port of a listener that was made upstream."""
    outputs = [call.output["Listeners"][0] for call in scene.calls if call.name == "elbv2:CreateListener"]
    return next(listener["Port"] for listener in outputs if listener["ListenerArn"] == arn)


def the(scene: Scene, balancer: dict[str, Any], port: int, alone: bool, arn: str = "") -> str:
    """A listener as people call it: by its port and load balancer; its arn may be stated where it is given."""
    if arn and chance(scene, b.STATED):
        return f"the listener {arn}"
    name = balancer["LoadBalancerName"]
    ways = [f"the listener on port {port} of {name}", f"{name}'s listener on port {port}"]
    return say(scene, *ways, *([f"the listener of {name}", "the listener created above"] if alone else []))


@program("elbv2:CreateListener")
def create(scene: Scene) -> Goal:
    """A new listener: plain or secure, with any kind of action, or on a network load balancer."""
    if chance(scene, 0.25):
        return _network(scene)
    home = b.backstage(scene, subnets=2)
    balancers = b.standing(scene, scene.rng.choice((1, 2)), home=home)
    groups = b.groups(scene, scene.rng.choice((1, 2)), home=home)
    balancer = balancers[0]
    wish = action(scene, groups)
    secure = chance(scene, 0.4)
    protocol = "HTTPS" if secure else "HTTP"
    usual = 443 if secure else 80
    port = scene.rng.choice((usual, usual, 8443, 8080, 9000, scene.rng.randrange(1024, 60000)))
    where = (
        say(scene, f"on the default port for {protocol}", f"by {protocol} on its usual port")
        if port == usual
        else f"by {protocol} on port {port}"
    )
    name = balancer["LoadBalancerName"]
    opening = say(
        scene,
        f"Let {name} take requests {where} and {wish.words}",
        f"{name} should listen {where}; for all requests, {wish.words}",
    )
    arguments: dict[str, Any] = {
        "LoadBalancerArn": balancer["LoadBalancerArn"],
        "Protocol": protocol,
        "Port": port,
        "DefaultActions": [wish.value],
    }
    sentences = [sentence(opening)]
    if secure:
        arguments["Certificates"] = [{"CertificateArn": _certified(scene, balancers, groups, sentences)}]
        if chance(scene, 0.4):
            arguments["SslPolicy"] = scene.rng.choice(_POLICIES)
            sentences.append(
                say(
                    scene,
                    f"Use the security policy {arguments['SslPolicy']}.",
                    f"Negotiate by {arguments['SslPolicy']}.",
                )
            )
    return Goal(arguments, tuple(sentences), wish.conditions + secure, UNORDERED)


def _certified(scene: Scene, balancers: list[dict[str, Any]], groups: dict[str, str], sentences: list[str]) -> str:
    """The certificate of a new listener: stated, or that of another load balancer's listener."""
    arn = certificate(scene)
    if len(balancers) > 1 and chance(scene, 0.7):
        other = balancers[1]
        scene.do(
            "elbv2:CreateListener",
            LoadBalancerArn=other["LoadBalancerArn"],
            Protocol="HTTPS",
            Port=443,
            Certificates=[{"CertificateArn": arn}],
            DefaultActions=[{"Type": "forward", "TargetGroupArn": next(iter(groups.values()))}],
        )
        sentences.append(
            say(
                scene,
                f"Use the certificate of {other['LoadBalancerName']} here too.",
                f"It shares the certificate of {other['LoadBalancerName']}.",
            )
        )
    else:
        sentences.append(say(scene, f"Its certificate is {arn}.", f"Present the certificate {arn}."))
    return arn


def _network(scene: Scene) -> Goal:
    """A network load balancer hands connections on."""
    home = b.backstage(scene, subnets=2)
    balancer = b.standing(scene, 1, home=home, kind="network")[0]
    groups = b.groups(scene, scene.rng.choice((1, 2)), home=home, protocol="TCP")
    name, arn = scene.rng.choice(list(groups.items()))
    protocol = scene.rng.choice(("TCP", "UDP", "TCP_UDP"))
    said = {"TCP": "TCP", "UDP": "UDP", "TCP_UDP": "TCP and UDP alike"}[protocol]
    port = scene.rng.randrange(20, 60000)
    who = balancer["LoadBalancerName"]
    words = say(
        scene,
        f"Let {who} listen for {said} on port {port} and hand everything to {name}",
        f"Whatever reaches {who} by {said} on port {port} goes to the target group {name}",
    )
    arguments = {
        "LoadBalancerArn": balancer["LoadBalancerArn"],
        "Protocol": protocol,
        "Port": port,
        "DefaultActions": [{"Type": "forward", "TargetGroupArn": arn}],
    }
    return Goal(arguments, (sentence(words),), unordered=UNORDERED)


@program("elbv2:ModifyListener")
def modify(scene: Scene) -> Goal:
    """Another port, another action, or both, for one of the listeners."""
    count = scene.rng.choice((1, 1, 2))
    balancer, groups, arns = place(scene, ports=count)
    arn = scene.rng.choice(arns)
    arguments: dict[str, Any] = {"ListenerArn": arn}
    who = the(scene, balancer, port_of(scene, arn), count == 1, arn)
    sentences, conditions = [], 0
    way = scene.rng.choice(("port", "action", "action", "both", "both"))
    if way != "action":
        arguments["Port"] = scene.rng.randrange(1024, 60000)
        sentences.append(
            sentence(
                say(
                    scene,
                    f"Move {who} to port number {arguments['Port']}",
                    f"Change {who}: it should now use port number {arguments['Port']}",
                )
            )
        )
    if way != "port":
        wish = action(scene, groups)
        arguments["DefaultActions"], conditions = [wish.value], wish.conditions
        start = "By default" if sentences else f"For requests that reach {who} and no rule"
        sentences.append(sentence(f"{start}, {wish.words}"))
    return Goal(arguments, tuple(sentences), conditions, UNORDERED)


@program("elbv2:DeleteListener")
def delete(scene: Scene) -> Goal:
    """One of the listeners goes."""
    count = scene.rng.choice((1, 2, 3))
    balancer, _, arns = place(scene, ports=count)
    arn = scene.rng.choice(arns)
    who = the(scene, balancer, port_of(scene, arn), count == 1, arn)
    words = say(scene, f"Remove {who}.", f"Close {who} for good.", f"{who} is not needed any more; delete it.")
    return Goal({"ListenerArn": arn}, (sentence(words),))


@program("elbv2:DescribeListeners")
def describe(scene: Scene) -> Goal:
    """All listeners of a load balancer, or some by their identity."""
    if chance(scene, 0.5):
        balancer, *_ = b.standing(scene, scene.rng.choice((1, 2, 3)))
        name = balancer["LoadBalancerName"]
        words = say(
            scene, f"What does {name} listen on?", f"List all listeners of {name}.", f"On which ports is {name} open?"
        )
        return Goal({"LoadBalancerArn": balancer["LoadBalancerArn"]}, (words,))
    balancer, _, arns = place(scene, ports=3)
    picks = scene.rng.sample(arns, scene.rng.choice((1, 2)))
    ports = listed([str(port_of(scene, arn)) for arn in picks])
    noun = "listener on port" if len(picks) == 1 else "listeners on ports"
    name = balancer["LoadBalancerName"]
    words = say(scene, f"Show just the {noun} {ports} of {name}.", f"Of {name}, look up only the {noun} {ports}.")
    return Goal({"ListenerArns": picks}, (words,), unordered=("ListenerArns",))


def _secure(scene: Scene, more: int) -> tuple[dict[str, Any], str, list[str]]:
    """A load balancer with a secure listener and further certificates that were added to it."""
    home = b.backstage(scene, subnets=2)
    balancer = b.standing(scene, 1, home=home)[0]
    group = next(iter(b.groups(scene, 1, home=home).values()))
    output = scene.do(
        "elbv2:CreateListener",
        LoadBalancerArn=balancer["LoadBalancerArn"],
        Protocol="HTTPS",
        Port=443,
        Certificates=[{"CertificateArn": certificate(scene)}],
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
    )
    arn = output["Listeners"][0]["ListenerArn"]
    found = list(dict.fromkeys(certificate(scene) for _ in range(more)))
    if found:
        scene.do("elbv2:AddListenerCertificates", ListenerArn=arn, Certificates=[{"CertificateArn": c} for c in found])
    return balancer, arn, found


@program("elbv2:AddListenerCertificates")
def add_certificates(scene: Scene) -> Goal:
    """A secure listener presents further certificates."""
    balancer, arn, _ = _secure(scene, 0)
    found = list(dict.fromkeys(certificate(scene) for _ in range(scene.rng.choice((1, 2)))))
    name = balancer["LoadBalancerName"]
    words = say(
        scene,
        f"The HTTPS listener of {name} should also present {listed(found)}.",
        f"Add {listed(found)} to what {name} can present on HTTPS.",
    )
    arguments = {"ListenerArn": arn, "Certificates": [{"CertificateArn": c} for c in found]}
    return Goal(arguments, (words,), unordered=("Certificates",))


@program("elbv2:RemoveListenerCertificates")
def remove_certificates(scene: Scene) -> Goal:
    """A secure listener stops to present some certificates that were added before."""
    balancer, arn, found = _secure(scene, 3)
    picks = scene.rng.sample(found, scene.rng.choice((1, 2)))
    said = listed([c.rpartition("/")[2] for c in picks])
    name = balancer["LoadBalancerName"]
    words = say(
        scene,
        f"The HTTPS listener of {name} must not present {said} any more.",
        f"Withdraw {said} from the HTTPS listener of {name}.",
    )
    arguments = {"ListenerArn": arn, "Certificates": [{"CertificateArn": c} for c in picks]}
    return Goal(arguments, (words,), unordered=("Certificates",))


_FRAMES = {"DENY": "forbid framing by anyone", "SAMEORIGIN": "allow framing by the same origin alone"}
_SERVER = {"true": "show the server header", "false": "hide the server header"}


@program("elbv2:ModifyListenerAttributes")
def modify_attributes(scene: Scene) -> Goal:
    """How a listener answers or how long it waits; an earlier call shows what the attributes are called."""
    if chance(scene, 0.35):
        balancer, _, arns = place(scene, kind="network")
        scene.do("elbv2:DescribeListenerAttributes", ListenerArn=arns[0])
        span = scene.rng.choice((60, 90, 120, 180, 240, 420, 600, 900, 1200, 1800, 3600, 5400))
        who = the(scene, balancer, port_of(scene, arns[0]), True)
        words = say(
            scene,
            f"Let {who} drop idle connections after {duration(scene, span)}.",
            f"Idle connections through {who} should end after {duration(scene, span)}.",
        )
        attributes = [{"Key": "tcp.idle_timeout.seconds", "Value": str(span)}]
        return Goal({"ListenerArn": arns[0], "Attributes": attributes}, (sentence(words),), unordered=("Attributes",))
    balancer, _, arns = place(scene, ports=2)
    days = scene.rng.choice((30, 60, 90, 180, 365))
    frame, server = scene.rng.choice(list(_FRAMES)), scene.rng.choice(list(_SERVER))
    values = {
        "routing.http.response.x_frame_options.header_value": (frame, _FRAMES[frame]),
        "routing.http.response.server.enabled": (server, _SERVER[server]),
        "routing.http.response.strict_transport_security.header_value": (
            f"max-age={days * 86400}",
            f"demand strict transport security for {days} days",
        ),
    }
    first = ("SAMEORIGIN" if frame == "DENY" else "DENY", "false" if server == "true" else "true", "max-age=86400")
    scene.do(
        "elbv2:ModifyListenerAttributes",
        ListenerArn=arns[0],
        Attributes=[{"Key": key, "Value": old} for key, old in zip(values, first, strict=True)],
    )
    keys = scene.rng.sample(list(values), scene.rng.choice((1, 2, 3)))
    arn = scene.rng.choice(arns)
    who = the(scene, balancer, port_of(scene, arn), False)
    wishes = listed([values[key][1] for key in keys])
    words = say(scene, f"For {who}: {wishes}.", f"On {who}, {wishes}.")
    arguments = {"ListenerArn": arn, "Attributes": [{"Key": key, "Value": values[key][0]} for key in keys]}
    return Goal(arguments, (sentence(words),), unordered=("Attributes",))
