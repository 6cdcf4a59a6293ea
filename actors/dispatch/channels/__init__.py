"""Channels: Apprise, whose every connection goes through an outlet of ours."""
