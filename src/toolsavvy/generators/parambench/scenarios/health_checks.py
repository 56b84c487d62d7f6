"""Stories that end in a call on health checks: made, changed, looked up, removed."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios.builders import STATED
from toolsavvy.generators.parambench.scenarios.domains import REGIONS, check, domain, public_address, reference
from toolsavvy.generators.parambench.scenarios.words import chance, duration, listed, number_word, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_PATHS = ("/health", "/healthz", "/ping", "/status", "/ready", "/live", "/up", "/api/health", "/v1/status", "/alive")
_TEXTS = ("OK", "alive", "healthy", "ready", "pong", "all good", "up")
_USUAL = {"HTTP": 80, "HTTPS": 443}


@program("route53:CreateHealthCheck")
def create(scene: Scene) -> Goal:
    """A new check of an address or a host by HTTP, HTTPS or TCP."""
    own = reference(scene)
    protocol = scene.rng.choice(("HTTP", "HTTPS", "TCP"))
    config: dict[str, Any] = {"Type": protocol}
    host = f"{scene.rng.choice(('www', 'api', 'app', 'shop'))}.{domain(scene)}"
    if protocol != "TCP" and chance(scene, 0.5):
        what = config["FullyQualifiedDomainName"] = host
    else:
        what = config["IPAddress"] = public_address(scene)
    usual = protocol in _USUAL and chance(scene, 0.5)
    port = config["Port"] = _USUAL[protocol] if usual else scene.rng.randrange(1024, 60000)
    where = (
        say(scene, f"by {protocol} on its usual port", f"by {protocol} on the default port")
        if usual
        else f"by {protocol} on port {port}"
    )
    opening = say(scene, f"Watch {what} {where}", f"Set up a health check of {what} {where}")
    if protocol != "TCP" and chance(scene, 0.7):
        config["ResourcePath"] = scene.rng.choice(_PATHS)
        opening += f", asking for {config['ResourcePath']}"
    sentences = [sentence(opening)]
    if protocol != "TCP" and chance(scene, 0.3):
        config["Type"] = f"{protocol}_STR_MATCH"
        config["SearchString"] = scene.rng.choice(_TEXTS)
        sentences.append(f"The answer must contain '{config['SearchString']}'.")
    sentences += _settings(scene, config)
    sentences.append(say(scene, f"Use the reference {own}.", f"The request's reference is {own}."))
    conditions = sum(key in config for key in ("ResourcePath", "SearchString"))
    return Goal({"CallerReference": own, "HealthCheckConfig": config}, tuple(sentences), conditions, _UNORDERED)


_UNORDERED = ("HealthCheckConfig.Regions", "Regions")


def _settings(scene: Scene, config: dict[str, Any]) -> list[str]:
    """Pace and further settings of a new check, each in a part of the stories."""
    sentences = []
    if chance(scene, 0.5):
        span = config["RequestInterval"] = scene.rng.choice((10, 30))
        sentences.append(
            say(scene, f"Ask every {duration(scene, span)}.", f"Leave {duration(scene, span)} between requests.")
        )
    if chance(scene, 0.5):
        sentences.append(_failures(scene, config))
    if chance(scene, 0.2):
        config["MeasureLatency"] = True
        sentences.append(say(scene, "Record the latency as well.", "Measure how long answers take."))
    if chance(scene, 0.2):
        config["Inverted"] = True
        sentences.append(say(scene, "Turn its verdict around.", "Treat what fails as healthy and the reverse."))
    if chance(scene, 0.3):
        sentences.append(_places(scene, config))
    return sentences


def _failures(scene: Scene, config: dict[str, Any]) -> str:
    count = config["FailureThreshold"] = scene.rng.randrange(2, 11)
    return say(
        scene,
        f"It is down after {number_word(count)} failures in a row.",
        f"{number_word(count).capitalize()} failures in a row mean that it is down.",
    )


def _places(scene: Scene, config: dict[str, Any]) -> str:
    places = config["Regions"] = scene.rng.sample([r for r in REGIONS if r != "eu-central-1"], 3)
    return say(scene, f"Check from {listed(places)}.", f"Ask from {listed(places)} only.")


@program("route53:CreateHealthCheck")
def calculated(scene: Scene) -> Goal:
    """A check that sums up others."""
    own = reference(scene)
    found = [check(scene) for _ in range(scene.rng.choice((2, 3)))]
    picks = found if chance(scene, 0.5) else scene.rng.sample(found, 2)
    least = scene.rng.randint(1, len(picks))
    config = {"Type": "CALCULATED", "ChildHealthChecks": [one["Id"] for one in picks], "HealthThreshold": least}
    if len(picks) == len(found):
        which = "the checks created above"
    else:
        which = f"the checks of {listed([one['HealthCheckConfig']['IPAddress'] for one in picks])}"
    verb = "is" if least == 1 else "are"
    words = say(
        scene,
        f"Sum up {which} in one health check: it is healthy while at least {number_word(least)} of them {verb}.",
        f"Create a health check that combines {which}; at least {number_word(least)} of them must be fine.",
    )
    sentences = (words, say(scene, f"Use the reference {own}.", f"The request's reference is {own}."))
    arguments = {"CallerReference": own, "HealthCheckConfig": config}
    return Goal(arguments, sentences, 2, ("HealthCheckConfig.ChildHealthChecks",))


def _several(scene: Scene) -> tuple[str, str]:
    """Some checks: the id of one, and what it is called."""
    found = [check(scene) for _ in range(scene.rng.choice((1, 2, 3)))]
    chosen = scene.rng.choice(found)
    address = chosen["HealthCheckConfig"]["IPAddress"]
    if chance(scene, STATED):
        return chosen["Id"], f"the health check {chosen['Id']}"
    ways = [f"the health check of {address}", f"the check that watches {address}"]
    return chosen["Id"], say(scene, *ways, *(["the health check created above"] if len(found) == 1 else []))


@program("route53:UpdateHealthCheck")
def update(scene: Scene) -> Goal:
    """Another target, pace or state for one of the checks."""
    own, who = _several(scene)
    arguments: dict[str, Any] = {"HealthCheckId": own}
    wishes = []
    parts = scene.rng.sample(
        ("port", "path", "failures", "host", "state", "places", "invert"), scene.rng.choice((1, 2, 3))
    )
    if "port" in parts:
        arguments["Port"] = scene.rng.randrange(1024, 60000)
        wishes.append(f"Use port {arguments['Port']}.")
    if "path" in parts:
        arguments["ResourcePath"] = scene.rng.choice(_PATHS)
        wishes.append(
            say(scene, f"Ask for {arguments['ResourcePath']}.", f"Request the path {arguments['ResourcePath']}.")
        )
    if "failures" in parts:
        wishes.append(_failures(scene, arguments))
    if "host" in parts:
        arguments["FullyQualifiedDomainName"] = f"{scene.rng.choice(('www', 'api', 'app'))}.{domain(scene)}"
        wishes.append(f"Send the host name {arguments['FullyQualifiedDomainName']}.")
    if "state" in parts:
        arguments["Disabled"] = True
        wishes.append(say(scene, "Switch it off for now.", "It should stop checking for the time being."))
    if "invert" in parts:
        arguments["Inverted"] = True
        wishes.append(say(scene, "Turn its verdict around.", "Treat what fails as healthy and the reverse."))
    if "places" in parts:
        wishes.append(_places(scene, arguments))
    opening = say(scene, f"Change {who}.", f"Update {who}.")
    return Goal(arguments, (opening, *wishes), unordered=_UNORDERED)


@program("route53:DeleteHealthCheck")
def delete(scene: Scene) -> Goal:
    """One of the checks goes."""
    own, who = _several(scene)
    return Goal({"HealthCheckId": own}, (say(scene, f"Delete {who}.", f"We don't need {who} any more, remove it."),))


@program("route53:GetHealthCheck")
def get(scene: Scene) -> Goal:
    """How is one of the checks set?"""
    own, who = _several(scene)
    return Goal({"HealthCheckId": own}, (say(scene, f"Show the settings of {who}.", f"How is {who} set up?"),))


@program("route53:GetHealthCheckStatus")
def status(scene: Scene) -> Goal:
    """What does one of the checks say at the moment?"""
    own, who = _several(scene)
    words = say(scene, f"What does {who} report right now?", f"Is the target of {who} up at the moment?")
    return Goal({"HealthCheckId": own}, (words,))
