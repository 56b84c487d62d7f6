"""Stories that end in a call on target groups."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, number_word, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_PATHS = ("/health", "/healthz", "/ping", "/status", "/ready", "/live", "/up", "/api/health", "/_check", "/v1/status")
_CODES = ("200", "204", "200-299", "200,301", "200-399", "200,202", "200-204")


def the(scene: Scene, name: str, alone: bool = False, arn: str = "") -> str:
    """A target group as people call it; `alone`: no other could be meant; `arn`: it may be stated."""
    if arn and chance(scene, b.STATED):
        return f"the target group {arn}"
    ways = [f"the target group {name}", f"target group {name}", f"the target group called {name}"]
    return say(scene, *ways, *(["the target group created above", "that target group"] if alone else []))


@program("elbv2:CreateTargetGroup")
def create(scene: Scene) -> Goal:
    """A new target group in a named network, from bare to a full health check."""
    rng = scene.rng
    nets = [b.network(scene, subnets=0) for _ in range(rng.choice((1, 1, 2)))]
    net = rng.choice(nets)
    name = f"{b.application(scene)}-{rng.choice(('web', 'api', 'app', 'svc'))}"
    protocol = rng.choice(("HTTP", "HTTP", "HTTPS", "TCP", "TLS", "UDP"))
    port = rng.choice([80, 443, 3000, 5000, 8000, 8080, 8443, 9000, rng.randrange(1024, 60000)])
    target = rng.choice(("instance", "ip"))
    who = {
        "instance": say(scene, "instances", "EC2 instances", "machines registered by instance id"),
        "ip": say(scene, "IP addresses", "targets registered by IP address"),
    }[target]
    arguments: dict[str, Any] = {
        "Name": name,
        "Protocol": protocol,
        "Port": port,
        "VpcId": net.id,
        "TargetType": target,
    }
    opening = say(
        scene,
        f"Create the target group {name} in the VPC {net.name} for {who} that listen on {protocol} port {port}.",
        f"In {net.name}, set up a target group called {name} for {who}, reached by {protocol} on port {port}.",
    )
    sentences = [opening]
    if chance(scene, 0.75):
        sentences += _check(scene, arguments, protocol in ("HTTP", "HTTPS"))
    return Goal(arguments, tuple(sentences), conditions=sum(k in arguments for k in ("HealthCheckPath", "Matcher")))


def _check(scene: Scene, arguments: dict[str, Any], web: bool) -> list[str]:
    """Settings of a health check and the sentences for them; `web`: the check may be an HTTP request."""
    rng, sentences = scene.rng, []
    if web or chance(scene, 0.5):
        path = rng.choice(_PATHS)
        if not web:
            arguments["HealthCheckProtocol"] = "HTTP"
        arguments["HealthCheckPath"] = path
        how = "" if web else "by HTTP "
        sentences.append(
            say(scene, f"Check their health {how}at {path}.", f"Health checks go {how}to the path {path}.")
        )
        if chance(scene, 0.5):
            arguments["Matcher"] = {"HttpCode": rng.choice(_CODES)}
            sentences.append(_codes(scene, arguments["Matcher"]["HttpCode"]))
    sentences += _timing(scene, arguments)
    if chance(scene, 0.3):
        arguments["HealthCheckPort"] = str(rng.randrange(1024, 60000))
        sentences.append(
            say(
                scene,
                f"Probe port {arguments['HealthCheckPort']} for that.",
                f"The probes use port {arguments['HealthCheckPort']}.",
            )
        )
    return sentences


def _codes(scene: Scene, codes: str) -> str:
    if "-" in codes:
        return f"Any status from {codes.replace('-', ' to ')} counts as healthy."
    if "," in codes:
        return f"The statuses {codes.replace(',', ' and ')} count as healthy."
    return say(scene, f"Only the status {codes} counts as healthy.", f"Nothing but the status {codes} is healthy.")


def _timing(scene: Scene, arguments: dict[str, Any]) -> list[str]:
    """How often, how long and how many times, each in a part of the stories (at least one)."""
    rng, sentences = scene.rng, []
    parts = rng.sample(("interval", "healthy", "unhealthy"), rng.choice((1, 2, 3)))
    if "interval" in parts:
        interval = rng.choice((20, 30, 40, 45, 60, 90, 120, 180, 240, 300))
        arguments["HealthCheckIntervalSeconds"] = interval
        sentences.append(
            say(
                scene,
                f"Probe every {duration(scene, interval)}.",
                f"Leave {duration(scene, interval)} between two probes.",
            )
        )
        if chance(scene, 0.5):
            limit = rng.randrange(2, 15)
            arguments["HealthCheckTimeoutSeconds"] = limit
            sentences.append(
                say(
                    scene,
                    f"Give up on a probe after {duration(scene, limit)}.",
                    f"A probe fails without an answer within {duration(scene, limit)}.",
                )
            )
    if "healthy" in parts:
        count = rng.randrange(2, 11)
        arguments["HealthyThresholdCount"] = count
        sentences.append(
            say(
                scene,
                f"A target is back after {number_word(count)} good probes.",
                f"{number_word(count).capitalize()} good probes in a row make a target healthy.",
            )
        )
    if "unhealthy" in parts:
        count = rng.randrange(2, 11)
        arguments["UnhealthyThresholdCount"] = count
        sentences.append(
            say(
                scene,
                f"Take a target out after {count} failed probes.",
                f"{number_word(count).capitalize()} failed probes take a target out.",
            )
        )
    return sentences


@program("elbv2:ModifyTargetGroup")
def modify(scene: Scene) -> Goal:
    """Another health check for one of some target groups."""
    rng = scene.rng
    count = rng.choice((1, 2, 3))
    found = b.groups(scene, count, protocol=rng.choice(("HTTP", "HTTPS")), port=rng.choice((80, 8080, 8443)))
    name = rng.choice(list(found))
    arguments: dict[str, Any] = {"TargetGroupArn": found[name]}
    verb = say(scene, "Change the health check of", "Check differently on")
    sentences = [f"{verb} {the(scene, name, count == 1, found[name])}."]
    sentences += _check(scene, arguments, True) if chance(scene, 0.7) else _timing(scene, arguments)
    return Goal(arguments, tuple(sentences), conditions=sum(k in arguments for k in ("HealthCheckPath", "Matcher")))


_WISHES: dict[str, dict[str, str] | str] = {
    "deregistration_delay.timeout_seconds": "wait {} before a leaving target is cut off",
    "slow_start.duration_seconds": "let new targets warm up for {}",
    "load_balancing.algorithm.type": {
        "round_robin": "hand out requests by turns",
        "least_outstanding_requests": "send requests to whichever target has the fewest open ones",
        "weighted_random": "spread requests at random by weight",
    },
    "load_balancing.cross_zone.enabled": {
        "true": "balance across zones",
        "false": "stay within a zone when balancing",
        "use_load_balancer_configuration": "leave balancing across zones to the load balancer's own setting",
    },
}


@program("elbv2:ModifyTargetGroupAttributes")
def modify_attributes(scene: Scene) -> Goal:
    """How targets leave and requests are handed out; an earlier look shows what the attributes are called."""
    rng = scene.rng
    count = rng.choice((1, 2))
    found = b.groups(scene, count)
    name = rng.choice(list(found))
    scene.do("elbv2:DescribeTargetGroupAttributes", TargetGroupArn=found[name])
    pairs: list[tuple[str, str]] = []
    wishes = []
    for key in rng.sample(list(_WISHES), rng.choice((1, 2, 3))):
        ways = _WISHES[key]
        if isinstance(ways, str):
            value = str(rng.choice((30, 40, 45, 60, 75, 90, 120, 150, 180, 240, 420, 600, 900)))
            wishes.append(ways.format(duration(scene, int(value))))
        else:
            value = rng.choice([v for v in ways if v not in ("round_robin", "use_load_balancer_configuration")])
            wishes.append(ways[value])
        pairs.append((key, value))
    sentences = []
    if chance(scene, 0.4):
        sentences.append(_sticky(scene, pairs))
    who = the(scene, name, count == 1, found[name])
    sentences.insert(0, sentence(say(scene, f"For {who}: {listed(wishes)}.", f"On {who}, {listed(wishes)}.")))
    arguments = {"TargetGroupArn": found[name], "Attributes": [{"Key": key, "Value": value} for key, value in pairs]}
    return Goal(arguments, tuple(sentences), conditions=2 * (len(sentences) - 1), unordered=("Attributes",))


def _sticky(scene: Scene, pairs: list[tuple[str, str]]) -> str:
    """Stickiness by the balancer's own cookie for some time, added to the attributes; its sentence."""
    span = scene.rng.choice((300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400))
    pairs += [
        ("stickiness.enabled", "true"),
        ("stickiness.type", "lb_cookie"),
        ("stickiness.lb_cookie.duration_seconds", str(span)),
    ]
    return say(
        scene,
        f"Clients stick to their target for {duration(scene, span)} by the load balancer's own cookie.",
        f"The load balancer's own cookie keeps a client on its target for {duration(scene, span)}.",
    )


@program("elbv2:DeleteTargetGroup")
def delete(scene: Scene) -> Goal:
    """One of the target groups goes."""
    count = scene.rng.choice((1, 2, 3))
    found = b.groups(scene, count)
    name = scene.rng.choice(list(found))
    who = the(scene, name, count == 1, found[name])
    words = say(scene, f"Remove {who}.", f"{who} is not used any more, delete it.", f"Clean up: {who} can go.")
    return Goal({"TargetGroupArn": found[name]}, (sentence(words),))


@program("elbv2:DescribeTargetGroups")
def describe(scene: Scene) -> Goal:
    """Some target groups by name or arn, or all behind a load balancer."""
    rng = scene.rng
    home = b.backstage(scene)
    found = b.groups(scene, rng.choice((2, 3)), home=home)
    names = rng.sample(list(found), rng.choice((1, 2)))
    way = rng.choice(("names", "arns", "balancer"))
    if way == "balancer":
        balancer = b.standing(scene, 1, home=home)[0]
        b.listener(scene, balancer["LoadBalancerArn"], found[names[0]])
        who = say(scene, f"the load balancer {balancer['LoadBalancerName']}", balancer["LoadBalancerName"])
        words = say(scene, f"Which target groups are behind {who}?", f"List the target groups that {who} sends to.")
        return Goal({"LoadBalancerArn": balancer["LoadBalancerArn"]}, (words,))
    if way == "names":
        words = say(scene, f"Look up {listed(names)} by name.", f"By name, show the target groups {listed(names)}.")
        return Goal({"Names": names}, (words,), unordered=("Names",))
    words = say(
        scene,
        f"Look up the target groups {listed(names)} by their ARNs.",
        f"Using their ARNs, show the settings of {listed(names)}.",
    )
    return Goal({"TargetGroupArns": [found[name] for name in names]}, (words,), unordered=("TargetGroupArns",))


@program("elbv2:DescribeTargetGroupAttributes")
def describe_attributes(scene: Scene) -> Goal:
    """How does a target group treat its targets?"""
    count = scene.rng.choice((1, 2, 3))
    found = b.groups(scene, count)
    name = scene.rng.choice(list(found))
    who = the(scene, name, count == 1, found[name])
    words = say(
        scene,
        f"How long does {who} wait for leaving targets, and is it sticky? Show its attributes.",
        f"Show the attributes of {who}.",
        f"Is stickiness on for {who}? Look at its attributes.",
    )
    return Goal({"TargetGroupArn": found[name]}, (words,))
