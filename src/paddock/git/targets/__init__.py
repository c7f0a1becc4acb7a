"""Where commits go to: a module for each kind of repository. They know branches, trees and commits, and no workspace."""
