"""What an agent can be taught: folders by the agentskills specification, checked, told of, and copied into a sandbox."""

from paddock.skills.copying import copy_skills
from paddock.skills.skill import Skill, load_skill, load_skills
from paddock.skills.telling import skills_prompt

__all__ = ["Skill", "copy_skills", "load_skill", "load_skills", "skills_prompt"]
