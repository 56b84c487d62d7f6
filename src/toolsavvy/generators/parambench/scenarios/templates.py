"""Launch templates: made, given further versions, and taken away."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import hardware
from toolsavvy.generators.parambench.scenarios.asking import count, specification
from toolsavvy.generators.parambench.scenarios.hardware import Machine
from toolsavvy.generators.parambench.scenarios.words import chance, name, ordinal, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

ANY = (
    "LaunchTemplateData.SecurityGroupIds",
    "LaunchTemplateData.NetworkInterfaces",
    "LaunchTemplateData.NetworkInterfaces.*.Groups",
    "LaunchTemplateData.BlockDeviceMappings",
    "LaunchTemplateData.TagSpecifications.*.Tags",
    "TagSpecifications.*.Tags",
)
NOTES = ("first try", "smaller disks", "new image", "hardened", "for the audit", "cost saving", "load test", "hotfix")
"""What a version is described as."""


def template(scene: Scene, versions: int) -> tuple[str, str, int]:
    """A launch template with some versions: its name, its id, and the latest number."""
    mark = name(scene, "lt")
    notes = scene.rng.sample(NOTES, versions)
    output = scene.do(
        "ec2:CreateLaunchTemplate",
        LaunchTemplateName=mark,
        VersionDescription=notes[0],
        LaunchTemplateData={"ImageId": hardware.image(scene), "InstanceType": hardware.size(scene)},
    )
    for note in notes[1:]:
        scene.do(
            "ec2:CreateLaunchTemplateVersion",
            LaunchTemplateName=mark,
            VersionDescription=note,
            SourceVersion="1",
            LaunchTemplateData={"InstanceType": hardware.size(scene)},
        )
    return mark, output["LaunchTemplate"]["LaunchTemplateId"], versions


def _data(scene: Scene, made: Machine, *, new: bool) -> None:
    """Draw what a template says of machines."""
    arguments = made.arguments
    if new:
        arguments["ImageId"], arguments["InstanceType"] = hardware.image(scene), hardware.size(scene)
        made.sentences.append(
            say(
                scene,
                f"Machines are of type {arguments['InstanceType']} and use the image {arguments['ImageId']}.",
                f"It is for {arguments['InstanceType']} machines with image {arguments['ImageId']}.",
            )
        )
    elif chance(scene, 0.6):
        arguments["InstanceType"] = hardware.size(scene)
        made.sentences.append(f"The type is now {arguments['InstanceType']}.")
    if chance(scene, 0.5 if new else 0.3):
        hardware.interfaces(scene, made, scene.rng.choice([1, 1, 2]))
    hardware.disks(scene, made, made.room(scene.rng.choice([0, 1, 2])))
    if made.room(3) == 3 and chance(scene, 0.5):
        hardware.metadata(scene, made)
    hardware.switches(scene, made, made.room(scene.rng.choice([0, 1, 2])) if arguments else 1)
    if made.room(1) and chance(scene, 0.4):
        kind = scene.rng.choice(["instance", "volume"])
        pairs = [
            ("team", scene.rng.choice(["web", "data", "netops"])),
            ("env", scene.rng.choice(["prod", "dev", "qa"])),
        ]
        pairs = pairs[: scene.rng.choice([1, 2])]
        arguments["TagSpecifications"] = specification(kind, pairs)
        noun = {"instance": "machines", "volume": "disks"}[kind]
        made.sentences.append(f"Tag the {noun} {' and '.join(f'{k}={v}' for k, v in pairs)}.")


@program("ec2:CreateLaunchTemplate")
def create(scene: Scene) -> Goal:
    """A template for machines."""
    made = Machine()
    mark = name(scene, "lt")
    sentences = [
        say(
            scene,
            f"Create a launch template {mark}.",
            f"We need a launch template called {mark}.",
            f"Set up the launch template {mark}.",
        )
    ]
    arguments: dict[str, Any] = {"LaunchTemplateName": mark}
    if chance(scene, 0.3):
        arguments["VersionDescription"] = scene.rng.choice(NOTES)
        sentences.append(f'Note "{arguments["VersionDescription"]}" on its first version.')
    _data(scene, made, new=True)
    arguments["LaunchTemplateData"] = made.arguments
    return Goal(arguments, (*sentences, *made.sentences), made.conditions, ANY)


@program("ec2:CreateLaunchTemplateVersion")
def version(scene: Scene) -> Goal:
    """A further version of a template."""
    mark, identifier, latest = template(scene, scene.rng.choice([1, 2, 3]))
    made = Machine()
    by_id = chance(scene, 0.2)
    arguments: dict[str, Any] = {"LaunchTemplateId": identifier} if by_id else {"LaunchTemplateName": mark}
    what = f"launch template {identifier if by_id else mark}"
    sentences = [say(scene, f"Add a version to the {what}.", f"The {what} needs a new version.")]
    if chance(scene, 0.7):
        source = scene.rng.randint(1, latest)
        arguments["SourceVersion"] = str(source)
        base = say(scene, f"version {source}", f"the {ordinal(source)} version")
        if source == latest and chance(scene, 0.5):
            base = "the newest version there is so far"
        sentences.append(say(scene, f"Start from {base}.", f"All else stays as in {base}."))
    if chance(scene, 0.4):
        arguments["VersionDescription"] = scene.rng.choice(NOTES)
        sentences.append(f'Note "{arguments["VersionDescription"]}" on it.')
    _data(scene, made, new=False)
    arguments["LaunchTemplateData"] = made.arguments
    return Goal(arguments, (*sentences, *made.sentences), made.conditions, ANY)


@program("ec2:ModifyLaunchTemplate")
def default(scene: Scene) -> Goal:
    """Another version becomes the default."""
    mark, identifier, latest = template(scene, scene.rng.choice([2, 3, 4]))
    notes = [c.arguments["VersionDescription"] for c in scene.calls if "VersionDescription" in c.arguments]
    by_id = chance(scene, 0.2)
    arguments: dict[str, Any] = {"LaunchTemplateId": identifier} if by_id else {"LaunchTemplateName": mark}
    what = f"launch template {identifier if by_id else mark}"
    number = scene.rng.randint(1, latest)
    said = [f"version {number}", f'the version noted as "{notes[number - 1]}"', f"the {ordinal(number)} version"]
    if number == latest:
        said.append("the newest version so far")
    which = scene.rng.choice(said)
    arguments["DefaultVersion"] = str(number)
    first = say(
        scene,
        f"Make {which} of the {what} the default",
        f"By default, the {what} should use {which}",
        f"Set the default of the {what} to {which}",
    )
    return Goal(arguments, (sentence(first),))


@program("ec2:DeleteLaunchTemplate")
def delete(scene: Scene) -> Goal:
    """A template goes away."""
    held = [template(scene, 1) for _ in range(scene.rng.choice([1, 2, 3]))]
    mark, identifier, _ = scene.rng.choice(held)
    by_id = chance(scene, 0.3)
    arguments = {"LaunchTemplateId": identifier} if by_id else {"LaunchTemplateName": mark}
    what = f"the launch template {identifier if by_id else mark}"
    first = say(
        scene, f"Delete {what}", f"{what} is not used anymore; remove it", f"Get rid of {what}", f"Remove {what}"
    )
    return Goal(arguments, (sentence(first),))


@program("ec2:DescribeLaunchTemplateVersions")
def show(scene: Scene) -> Goal:
    """Versions of a template are looked up."""
    mark, identifier, latest = template(scene, scene.rng.choice([2, 3, 4]))
    by_id = chance(scene, 0.2)
    arguments: dict[str, Any] = {"LaunchTemplateId": identifier} if by_id else {"LaunchTemplateName": mark}
    what = f"launch template {identifier if by_id else mark}"
    kind = scene.rng.choice(["list", "span", "most"])
    if kind == "list":
        chosen = sorted(scene.rng.sample(range(1, latest + 1), scene.rng.randint(1, 2)))
        arguments["Versions"] = [str(v) for v in chosen]
        said = " and ".join(str(v) for v in chosen)
        first = say(scene, f"Show version {said} of the {what}", f"What is in version {said} of the {what}?")
    elif kind == "span":
        low = scene.rng.randint(1, latest - 1)
        arguments |= {"MinVersion": str(low), "MaxVersion": str(latest)}
        first = say(
            scene,
            f"Show the {what} from version {low} to version {latest}",
            f"What changed in the {what} between version {low} and version {latest}?",
        )
    else:
        arguments["MaxResults"] = scene.rng.randrange(2, 40)
        number = count(scene, arguments["MaxResults"])
        first = say(
            scene, f"List versions of the {what}, no more than {number}", f"Show up to {number} versions of the {what}"
        )
    return Goal(arguments, (sentence(first),), unordered=("Versions",))
