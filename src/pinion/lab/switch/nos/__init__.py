"""The lab's switch: a network operating system with the command line of Arista EOS over SSH, in front of Open vSwitch.

It runs inside a lab machine with Debian's Python and asyncssh only, so nothing here imports anything else of Pinion.
What it does not know it refuses, as EOS would; nothing is accepted and then ignored.
"""
