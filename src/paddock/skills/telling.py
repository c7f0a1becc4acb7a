"""What an agent is told of skills at first: their names, what they are for, and where the rest is."""

from collections.abc import Iterable
from html import escape

from paddock import paths
from paddock.skills.skill import FILE, Skill


def skills_prompt(skills: Iterable[Skill], inside: str) -> str:
    """The list for a system prompt; empty if there are none. `inside` is the directory that they were copied to."""
    told = [
        f"<skill>\n<name>{escape(skill.name)}</name>\n<description>{escape(skill.description)}</description>\n"
        f"<location>{escape(paths.join(inside, f'{skill.name}/{FILE}'))}</location>\n</skill>"
        for skill in skills
    ]
    return "\n".join(["<available_skills>", *told, "</available_skills>"]) if told else ""
