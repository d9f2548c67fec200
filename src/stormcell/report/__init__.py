"""What runs left behind, as one page that opens offline, and as JUnit XML and JSON for programs.

load.py      a run's folder becomes a Run of the model (story.py and its helpers, pure but for the reading)
model.py     what a report says, as data
page.py      the model as HTML (markup.py escapes, figures/ draws)
junit.py     the model as JUnit XML
jsonfile.py  the model as JSON, and its schema
write.py     the three files in a folder
"""
