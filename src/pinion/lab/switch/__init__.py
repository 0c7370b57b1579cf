"""The lab's switch: `nos` is the program that runs inside its machine, the rest puts it there."""
