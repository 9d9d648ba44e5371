"""
The provider, simulated: a separate product that speaks novita.ai's GPU API and can hurt its client.

Called over HTTP only; imports nothing of Corral. Rule: where the provider's behaviour is a guess, it is a setting.
Start at `world.py`.
"""
