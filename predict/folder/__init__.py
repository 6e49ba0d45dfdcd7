"""The folder of a learned chain: its files, and the look-up of risks in them."""
