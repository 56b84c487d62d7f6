"""The first examples of Algorithm 1: requests, what their tools do, and an instruction for each; written for this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A worked example that a language model sees before it writes.

    Args:
        query: the request.
        tools: documents of its tools.
        instruction: a retrieval instruction for it.
    """

    query: str
    tools: str
    instruction: str


def _rows(*rows: tuple[str, str, str]) -> tuple[Example, ...]:
    return tuple(Example(*row) for row in rows)


SEEDS = _rows(
    (
        "Will I need an umbrella in Lisbon tomorrow afternoon?",
        "hourly outlook. Forecast of temperature, wind and rain for the next 48 hours. Parameters: city, units",
        "The user asks about coming weather at a place; find tools that take a location and give rain, wind or "
        "temperature hour by hour.",
    ),
    (
        "Turn 250 Swiss francs into Mexican pesos at today's rate.",
        "fx convert. Converts an amount between two currencies. Parameters: amount, source, target",
        "Retrieve tools which calculate the value of a sum of money in another currency from current exchange rates.",
    ),
    (
        "Book me a table for four at an Italian place near the office on Friday at eight.",
        "venue search. Restaurants by cuisine and distance. | seat reservation. Reserves seats at a venue.",
        "This needs two steps: look up places to eat by kitchen and distance, then reserve seats there for a party "
        "at a given time. Select tools for both.",
    ),
    (
        "What is the integral of x squared times sine x?",
        "symbolic integrator. Antiderivative of an expression. Parameters: expression, variable",
        "For a calculus problem stated in words, find tools that work out antiderivatives of a formula symbolically.",
    ),
    (
        "Please read this scanned invoice and tell me the total.",
        "page reader. Extracts the text of an image of a page. Parameters: image, language",
        "Given a picture of a printed document, search for tools able to recognise the characters on it and hand "
        "them back as text.",
    ),
    (
        "Delete all log groups that nobody has written to since last year.",
        "list log groups. Names of log groups and their last event. | delete log group. Removes one group.",
        "An administrator wants to clean up stored logs: retrieve operations that enumerate collections of events "
        "with their age, and those that remove one for good.",
    ),
    (
        "Which songs would I like if I listen to Fado a lot?",
        "similar tracks. Recommends music from seed genres or artists. Parameters: seeds, limit",
        "Look for recommenders that start from musical taste, for instance a genre, and propose matching pieces.",
    ),
    (
        "Send my sister the photo from yesterday's hike with a short note.",
        "media library. Finds photos by date and place. | mail sender. Sends a message with attachments.",
        "Pick out tools that locate personal pictures by the day they were taken, together with tools that deliver "
        "a message carrying a file.",
    ),
    (
        "How many steps did I walk last week compared to the week before?",
        "activity history. Daily steps, distance and energy between two dates. Parameters: start, end",
        "The request compares physical activity over two periods; find sources of day-by-day fitness measurements "
        "between given dates.",
    ),
    (
        "Translate this contract clause into Korean, but keep the numbering.",
        "document translation. Translates formatted text and keeps its layout. Parameters: text, target",
        "Find language tools that carry a text over into another tongue without disturbing its formatting.",
    ),
    (
        "Is there a cheaper flight to Oslo if I leave a day earlier?",
        "fare calendar. Lowest fares for a route over a range of days. Parameters: origin, destination, month",
        "Travel planning with flexible dates: retrieve tools that compare airline prices for one route across days.",
    ),
    (
        "Label everything you can see in this street picture and draw boxes around the cars.",
        "object detector. Finds objects in an image with labels and boxes. Parameters: image, threshold",
        "From an image, the positions and kinds of visible things are wanted. Choose vision models that mark objects.",
    ),
    (
        "Give the new intern read access to the finance folder until the end of June.",
        "grant permission. Lets a person use a folder. Parameters: user, folder, role, expiry",
        "Search for access-control operations with which a person gets limited, temporary rights to shared files.",
    ),
    (
        "I want the ingredients of a vegan lasagne for six on my shopping list.",
        "recipe finder. Recipes by diet and dish. | shopping list. Adds entries to a list.",
        "Combine a source of dishes that respects diets and portions with a tool that writes down things to buy.",
    ),
    (
        "What did the central bank decide this morning, and what do analysts say?",
        "headline search. Recent news by topic and source. Parameters: topic, since",
        "Retrieve tools that return recent press articles on an economic subject, newest first.",
    ),
    (
        "Sort these customer comments into happy, neutral and angry.",
        "tone classifier. Rates the sentiment of short texts. Parameters: texts",
        "Pieces of feedback are to be grouped by mood. Find classifiers of emotion or sentiment in short texts.",
    ),
    (
        "Who was the tallest player on the team that won the cup in 1998?",
        "squad archive. Players of a team in a season with their measures. Parameters: team, season",
        "A trivia question about sport: look for archives that list the members of teams with physical details, by "
        "season.",
    ),
    (
        "Restart the web servers one after the other and tell me if any does not come back.",
        "reboot machine. Restarts one machine. | health check. Says whether a machine answers.",
        "Find infrastructure operations that bring a host down and up again, and others that test if it responds.",
    ),
    (
        "Find me three papers on coral bleaching since 2020 and summarise each in a sentence.",
        "article index. Scientific articles by keyword and year. | abstractor. Summarises a long text.",
        "Scholarly reading is asked for: retrieve tools to search scientific literature by subject and year, and "
        "tools to condense a long text.",
    ),
    (
        "Remind me to water the plants every third day at seven.",
        "recurring reminder. Notifies at repeating times. Parameters: text, start, every",
        "Select personal-assistant tools which alert somebody again and again at fixed intervals.",
    ),
    (
        "Make this melody a bit slower and export it as MIDI.",
        "tempo change. Changes the speed of a score. | score export. Writes notes in exchange formats.",
        "For editing music: retrieve tools that alter how fast a piece is played, plus converters to common "
        "notation formats.",
    ),
    (
        "How much would a 20-year loan of 180,000 at 3.1 percent cost me each month?",
        "annuity calculator. Monthly rate of a loan. Parameters: principal, years, rate",
        "Retrieve financial calculators that derive regular repayments from a borrowed sum, its term and its interest.",
    ),
    (
        "Which of these two e-mail addresses is real?",
        "mailbox check. Tests whether a mailbox exists and accepts messages. Parameters: address",
        "Search for verification services that tell if an address for electronic mail exists and can receive.",
    ),
    (
        "Show all pull requests that have waited for a review for more than a week.",
        "list changes. Proposed code changes with state and dates. Parameters: repository, state",
        "A developer looks for stale proposals: find tools that list pending code changes and when they were opened.",
    ),
)
